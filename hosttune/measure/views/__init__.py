"""What was measured, and what a data set is, as text, pictures and JSON."""
