"""What people and programs read of a run: report, change log, errors, the executor's log and the archive."""
