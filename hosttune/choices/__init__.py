"""Choices: the few real decisions, each a pure function of facts and parameters. One module per
choice.

A module `choices/<name>.py` exports `choose(facts, params)`, which returns a Fact
dataclass. A rule that writes `choice: <name>` sees the result in its expressions as `choice`.
"""
