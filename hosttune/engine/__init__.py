"""Deciding, purely: catalogue, policy, expressions, evaluation, comparison, plan."""
