"""The running processes, and asking the Python of one of them inside its own limits."""
