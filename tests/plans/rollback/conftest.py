"""The same project as for plans: rollback begins where a plan has ended."""

from tests.plans.conftest import clock, project
from tests.support.shared_zygotes import zygotes_are_shared

__all__ = ["clock", "project", "zygotes_are_shared"]
