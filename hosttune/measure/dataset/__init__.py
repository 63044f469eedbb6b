"""A data set as a training job meets it: how much, in what pieces, where it is, what it takes in
memory.
"""
