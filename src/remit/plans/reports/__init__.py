"""Reports of a run, for people and programs: report, change log, errors, the executor's log and the archive."""
