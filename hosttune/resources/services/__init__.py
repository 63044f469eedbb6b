"""Units of systemd, their settings and restarts."""
