"""What a running job waits for: ticks of counters, a state for each, one verdict over all. It only
looks.
"""
