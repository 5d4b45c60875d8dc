"""Edits: bytes in, bytes out. Preview and effect call the same functions, so they cannot differ.

An edit is a list of splices on the original bytes; everything outside a splice is copied as it is: comments, key order,
line ends, encoding. Two tables, by the operation's type: `PLAIN_EDITORS` needs the standard library only,
`FULL_EDITORS` has JSON, YAML and patterns as well.
"""
