"""What the road, the ledger and the sandbox count: each thing once, when it is so, under words of our own."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from remit.core import metrics as tally
from remit.core.errors import Reason, RefusedError
from remit.core.ids import DEFAULT_TENANT
from remit.core.metrics import COUNTERS, DISTRIBUTIONS
from remit.execution.recovery import Recovered
from remit.ledger.entry import NewEntry
from remit.ledger.writer import Batch
from remit.workspace.workspace import Workspace
from tests.support.task_workspace import file_task, manifest, run

Grown = dict[tuple[str, ...], int]


def _read() -> Grown:
    counts = {(one.name, *labels): count for one in COUNTERS for labels, count in one.read().items()}
    spread = {(one.name, *labels): sum(found.counts) for one in DISTRIBUTIONS for labels, found in one.read().items()}
    return {**counts, **spread}


@contextmanager
def _growth() -> Iterator[Grown]:
    """Filled at the end: what has grown meanwhile, and by how much."""
    before, grown = _read(), Grown()
    yield grown
    grown.update({key: value - before.get(key, 0) for key, value in _read().items() if value != before.get(key, 0)})


def test_a_task_its_second_call_a_preview_and_a_refusal_are_counted_separately(workspace: Workspace) -> None:
    asked = manifest("counted-1")
    lease = workspace.issue_lease(asked).canonical()
    workspace.execute_task(manifest("warm"), workspace.issue_lease(manifest("warm")).canonical())
    with _growth() as grown:
        workspace.preview_task(asked, lease)
    assert grown == {("remit_road_requests_total", "task", "previewed"): 1}
    with _growth() as grown:
        workspace.execute_task(asked, lease)
    assert grown.pop(("remit_ledger_commit_seconds",)) == 2
    assert grown == {
        ("remit_road_requests_total", "task", "done"): 1,
        ("remit_road_seconds", "task"): 1,
        ("remit_ledger_entries_total", "task"): 2,
        ("remit_sandbox_seconds",): 1,
    }
    with _growth() as grown:
        workspace.execute_task(asked, lease)
    assert grown == {("remit_road_requests_total", "task", "stored"): 1, ("remit_road_seconds", "task"): 1}
    with _growth() as grown:
        workspace.execute_task(manifest("counted-2"), lease)
    assert grown["remit_road_refusals_total", "task", "signature_invalid"] == 1
    assert grown["remit_road_requests_total", "task", "refused"] == 1
    with _growth() as grown, pytest.raises(RefusedError):
        workspace.execute_task(b"{", lease)
    assert grown == {("remit_road_requests_total", "task", "malformed"): 1, ("remit_road_seconds", "task"): 1}


def test_an_effect_that_breaks_is_a_failure_and_a_process_cut_short(workspace: Workspace) -> None:
    base = Path(workspace.config.base_directories[0])
    with _growth() as grown:
        result = run(workspace, file_task("counted-3", "EXPLODE", None, base / "boom"))
    assert result.status == "FAILURE"
    assert grown["remit_road_failures_total", "task", "effect_failed"] == 1
    assert grown["remit_sandbox_kills_total", "effect_failed"] == 1
    assert grown["remit_road_requests_total", "task", "done"] == 1


def test_entries_count_when_they_are_durable_and_not_before(workspace: Workspace) -> None:
    event = NewEntry(DEFAULT_TENANT, "counted.entry", "c", {})

    def fail(batch: Batch) -> None:
        batch.append(event)
        raise RefusedError(Reason.MALFORMED, "no")

    with _growth() as grown, pytest.raises(RefusedError):
        workspace.ledger.transact(fail)
    assert grown == {}
    with _growth() as grown:
        workspace.ledger.append(event)
    assert grown == {("remit_ledger_entries_total", "counted"): 1, ("remit_ledger_commit_seconds",): 1}


def test_the_counts_of_a_group_member_that_failed_are_discarded(workspace: Workspace) -> None:
    def work(batch: Batch) -> None:
        mark = batch.mark()
        batch.count(tally.ENTRIES, "undone")
        batch.reset(mark)
        batch.count(tally.ENTRIES, "kept")

    with _growth() as grown:
        workspace.ledger.transact(work)
    assert grown == {("remit_ledger_entries_total", "kept"): 1, ("remit_ledger_commit_seconds",): 1}


def test_interrupted_work_is_counted_by_the_outcome_of_its_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    from remit.execution import recovery  # noqa: PLC0415 - beside the words that it counts by

    reports: list[tuple[Recovered[Any], str]] = [
        (Recovered("k", "t", took_effect=True), "finished"),
        (Recovered("k", "t"), "cleared"),
        (Recovered("k", "t", unknown=True), "closed"),
        (Recovered("k", "t", problem=RefusedError(Reason.MALFORMED, "no")), "stuck"),
    ]
    assert [recovery._ending(report) for report, _ in reports] == [ending for _, ending in reports]  # noqa: SLF001


def test_no_label_holds_anything_of_anybodys(workspace: Workspace) -> None:
    """Whatever the tests of this process did until now, and a task whose every name is a give-away."""
    base = Path(workspace.config.base_directories[0])
    run(workspace, file_task("giveaway-task", "MARK", None, base / "giveaway-file"))
    told = json.dumps([list(key) for key in _read()])
    assert "giveaway" not in told
    assert str(base) not in told
    assert tally.OTHER not in {label for counter in COUNTERS for labels in counter.read() for label in labels}
