"""Deciding, purely, in rooms: expressions, rules, policy, decide, fleet. Each knows only those
before it.
"""
