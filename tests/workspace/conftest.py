"""A workspace on each database, created as a user creates it."""

from tests.support.task_workspace import clock, workspace

__all__ = ["clock", "workspace"]
