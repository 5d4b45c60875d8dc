"""A slice of the crash sweeps; `make crash-tasks` makes all of them. The harness is proved on planted bugs first."""

import pytest

from tests.crash.tasks.counter import BUGS
from tests.crash.tasks.jobs import HONEST, PLANTED, SLICE, Job, run_job
from tests.support.sampling import some
from tests.support.small_disks import only_root

pytestmark = only_root


@pytest.mark.parametrize("job", some(PLANTED, 2), ids=str)
def test_a_planted_bug_is_found(job: Job) -> None:
    report = run_job(job)
    assert report.points > 1
    assert report.problems


def test_every_bug_is_looked_for() -> None:
    assert [job.scenario for job in PLANTED] == [f"counter: {bug}" for bug in BUGS]


@pytest.mark.parametrize("job", some(HONEST, 1), ids=str)
def test_honest_work_is_not_accused(job: Job) -> None:
    report = run_job(job)
    assert report.points > 3
    assert report.problems == []


@pytest.mark.req("EI-12", "FX-06")
@pytest.mark.parametrize("job", some(SLICE, 1), ids=str)
def test_a_stopped_task_is_as_before_or_as_after_and_recorded_once(job: Job) -> None:
    report = run_job(job)
    assert report.points > 2
    assert report.problems == []
