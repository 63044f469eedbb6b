"""Many hosts in one report."""
