"""The parts of the choice of a driver; the choice itself is hosttune.choices.driver."""
