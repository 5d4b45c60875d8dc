"""What a plan would change, as people are shown it."""
