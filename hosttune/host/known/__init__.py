"""Outside knowledge that several parts need, each piece in one module."""
