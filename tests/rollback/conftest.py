"""The same project as for plans: rollback begins where a plan has ended."""

from tests.plan_road.conftest import clock, project

__all__ = ["clock", "project"]
