"""Projects with pipelines and databases, as for the tests of pipelines."""

from tests.plans.pipelines.conftest import open_works, works, zygotes_are_shared

__all__ = ["open_works", "works", "zygotes_are_shared"]
