"""The command line: one thin module per command; the only place that prints or exits."""
