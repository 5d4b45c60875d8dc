"""Values and small functions that the parts of `plans` share."""
