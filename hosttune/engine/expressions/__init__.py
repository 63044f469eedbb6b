"""The expressions of rules: which parts of Python may stand in one, its types, its value."""
