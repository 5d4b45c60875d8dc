"""The processor time of a computation has the time of its sandboxed processes, and none that it only waits."""

import math
import time
from pathlib import Path

import pytest

from remit.sandbox.processor_time import charge_process, measure_processor_time
from tests.plans.project import Project, plan_of
from tests.plans.sql.shop import sql
from tests.support.shared_zygotes import zygotes_are_shared

__all__ = ["zygotes_are_shared"]
pytestmark = pytest.mark.req("PV-04")


def test_sandboxed_processes_count_and_waiting_does_not(tmp_path: Path) -> None:
    project = Project(tmp_path, connections={"memory": {"type": "duckdb"}})
    plan = plan_of(
        sql("s", "SELECT max(hash(range)) FROM range(20000000)", connection="memory", save_results_to="rows.csv")
    )
    try:
        began = time.thread_time()
        with measure_processor_time() as used:
            project.workspace.preview(plan)
            time.sleep(0.3)
        own = time.thread_time() - began
        assert own + 0.01 < used.seconds < math.inf
        with measure_processor_time() as waited:
            time.sleep(0.3)
        assert waited.seconds < 0.3
    finally:
        project.close()


def test_a_process_that_was_killed_or_is_unknown_counts_as_endless() -> None:
    for pid, is_alive in ((1, False), (2**22 + 7, True)):
        with measure_processor_time() as used:
            charge_process(pid, is_alive=is_alive)
        assert used.seconds == math.inf
    charge_process(1, is_alive=False)  # of no computation that is measured
