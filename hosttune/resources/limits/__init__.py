"""Limits of sessions and services."""
