"""Runs the steps of a plan in the sandbox: in which order, how many at once, and how far they are."""
