"""A slice of the crash sweeps over plans; `make crash-plans` makes all of them."""

import pytest

from tests.crash_plans.jobs import SLICE
from tests.crash_tasks.jobs import Job, run_job
from tests.disks import only_root
from tests.sampling import some

pytestmark = only_root


@pytest.mark.req("PX-28")
@pytest.mark.parametrize("one", some(SLICE, 1), ids=str)
def test_a_stopped_plan_is_as_before_or_as_after_and_recorded_once(one: Job) -> None:
    report = run_job(one)
    assert report.points > 1
    assert report.problems == []
