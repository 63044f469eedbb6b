"""Trying: a plan on a layer in memory, an fstab in a mount namespace of its own."""
