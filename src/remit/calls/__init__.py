"""Calls of functions of the caller's own program: once for each key, under the engine's steps."""
