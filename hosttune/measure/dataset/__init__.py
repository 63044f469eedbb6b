"""A data set as a training job meets it: how much, in what pieces, where it lies, what it takes in memory."""
