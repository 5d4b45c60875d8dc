"""Plans: many changes to files and databases, approved, applied and rolled back as one.

operation     the engine's steps for a plan; `draft_operation` for a preview alone
service       the plans of one workspace
policy        what a plan may do, and which approvals it needs (pure)
preparation   what SQL and pipelines would produce, on copies
preview       what people are shown
apply         carries a plan out, verifies it, undoes it, and resumes it after a crash
rollback      restores on request what a plan changed
engines       DuckDB, PostgreSQL and pipelines, as the host drives them
runtime       the steps of a plan in the sandbox, in waves
model         values that these share
reports       what people and programs read of a run
storage       backups, the manifest and the run's folder
proposals     plans that agents propose, and people's decisions
"""
