"""Kernel arguments, module options, sysctls, and attributes below /sys."""
