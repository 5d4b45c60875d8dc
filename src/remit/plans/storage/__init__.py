"""Backups, the manifest and the folder of a run: durable before an effect may begin."""
