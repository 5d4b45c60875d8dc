"""Runs programs of a project in a folder of copies: Python functions and dbt. Loaded in the sandbox only."""
