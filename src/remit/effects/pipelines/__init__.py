"""Programs of a project, run within a folder of copies: functions in Python, and dbt. Loaded in the sandbox only."""
