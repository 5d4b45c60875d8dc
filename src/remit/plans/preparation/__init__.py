"""Runs a plan's SQL and pipelines on copies, to find out what they would produce before anything is changed."""
