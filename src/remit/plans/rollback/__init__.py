"""Restores on request what a plan changed, in whole or in part."""
