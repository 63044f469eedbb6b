"""Showing: every value as text, JSON or a page. One module per format or subject."""
