"""From rules and facts to findings, and from findings to a plan, a word on health, a trial, the
gate.
"""
