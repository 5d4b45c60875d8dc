"""The same project as for plans: rollback begins where a plan has ended."""

from tests.kept_zygotes import zygotes_are_kept
from tests.plan_road.conftest import clock, project

__all__ = ["clock", "project", "zygotes_are_kept"]
