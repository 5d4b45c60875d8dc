"""Runs the steps of a plan in the sandbox. Controls their order, their parallelism and their progress."""
