"""A run on trial: it is rolled back by itself unless someone confirms it."""
