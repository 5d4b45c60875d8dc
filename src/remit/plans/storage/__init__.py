"""The backups, the manifest and the report folder of a run. They are durable before an effect starts."""
