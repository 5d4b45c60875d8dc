"""A workspace on each database, made the way a user makes it."""

from tests.support.task_workspace import clock, workspace

__all__ = ["clock", "workspace"]
