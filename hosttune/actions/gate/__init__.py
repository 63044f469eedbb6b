"""What happens around a boot: the gate, a run that goes on after it, what it makes and what it
lost.
"""
