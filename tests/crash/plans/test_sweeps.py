"""A slice of the crash sweeps over plans; `make crash-plans` makes all of them."""

import pytest

from tests.crash.plans.jobs import SLICE
from tests.crash.tasks.jobs import Job, run_job
from tests.support.sampling import some
from tests.support.small_disks import only_root

pytestmark = only_root


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("one", some(SLICE, 1), ids=str)
def test_a_stopped_plan_is_as_before_or_as_after_and_recorded_once(one: Job) -> None:
    report = run_job(one)
    assert report.points > 1
    assert report.problems == []
