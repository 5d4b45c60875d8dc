"""Host side of DuckDB, PostgreSQL and pipelines: requests to the sandboxed processes, and parsing of their answers."""
