"""Analyses SQL for a DuckDB file, and runs it on a copy of the file. Runs in the sandboxed process only."""
