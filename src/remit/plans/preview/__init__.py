"""The preview of a plan: what it would change, in the form that people see."""
