"""Rules and profiles as files and as values: YAML, its shape, the catalogue, lint."""
