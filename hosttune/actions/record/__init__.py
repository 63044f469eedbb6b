"""Taking a record of a host, without its secrets."""
