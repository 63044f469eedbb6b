"""A report on many hosts."""
