"""What must not leave a host: passwords, keys, names, what steers a terminal."""
