"""Inspects GPU servers, shows the diff that would tune them, applies it, proves it and takes it
back.
"""

__version__ = "0.2.0"
