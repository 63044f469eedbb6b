"""Looking: the running host and a root below another folder, within bounds."""
