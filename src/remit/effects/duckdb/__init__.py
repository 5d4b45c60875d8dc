"""SQL on a DuckDB file: what a text would do, and doing it to a copy. Runs in the sandboxed process only."""
