"""Debian packages, and what apt and unattended-upgrades do with them."""
