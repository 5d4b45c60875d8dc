"""Plans: many changes to files and databases, approved, applied and rolled back as one.

operation     implements the engine's steps for an approved plan; `draft_operation` stops after the preview
service       the interface to the plans of one workspace
policy        decides what a plan may do and which approvals it needs (pure functions)
preparation   runs SQL and pipelines on copies, to find out what they would produce
preview       builds the document that people read before they approve a plan
apply         carries out a plan, verifies it, undoes it after a failure, and resumes it after a crash
rollback      restores the files and rows of a run on request
engines       drives DuckDB, PostgreSQL and pipelines from the host
runtime       runs the steps of a plan in the sandbox, in waves
model         values that these packages share
reports       writes the reports of a run for people and programs
storage       backups, the rollback manifest, and the folder of a run
proposals     plans that agents propose, and the decisions of people about them
"""
