"""Edits: functions from bytes to bytes. Preview and effect call the same functions, so they cannot differ.

An edit is a list of splices on the original bytes. Everything outside a splice stays unchanged: comments, key order,
line ends, encoding. Two tables contain the editors by the operation's type. `PLAIN_EDITORS` needs the standard library
only. `FULL_EDITORS` has JSON, YAML and patterns as well.
"""
