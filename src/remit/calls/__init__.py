"""Calls of governed functions of the host program, under the engine's steps, once for each key."""
