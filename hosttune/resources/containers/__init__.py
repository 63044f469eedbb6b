"""Docker's daemon and its file."""
