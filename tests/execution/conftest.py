"""A workspace on each database, created as a user creates it."""

from tests.support.shared_zygotes import zygotes_are_shared
from tests.support.task_workspace import base, clock, kinds, source, workspace

__all__ = ["base", "clock", "kinds", "source", "workspace", "zygotes_are_shared"]
