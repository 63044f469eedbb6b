"""Measuring on this host: what a job waits for, whether a data set fits, whether a tweak pays.
Changes nothing here.
"""
