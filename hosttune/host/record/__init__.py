"""Replaying what one host answered."""
