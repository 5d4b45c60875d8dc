"""DuckDB, PostgreSQL and pipelines, as the host drives them: what they are sent, and what their answers mean."""
