"""Rolls a plan back on request, in whole or in part."""
