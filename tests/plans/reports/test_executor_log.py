"""The executor's log: JSON lines, masked, beneath the root, and never in the way of a plan."""

import json
import logging
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from remit.plans.reports.executor_log import MAX_LINE, ExecutorLog

DAY = "agent_logs/executor/2026-11-15.jsonl"


def clock() -> datetime:
    return datetime(2026, 11, 15, 15, 45, tzinfo=UTC)


@pytest.fixture
def log(tmp_path: Path) -> ExecutorLog:
    return ExecutorLog(str(tmp_path), clock)


@pytest.mark.req("PX-27")
def test_each_event_is_one_line_of_json(log: ExecutorLog, tmp_path: Path) -> None:
    log.write("plan.begun", envelope_id="e-1", files=3)
    log.write("plan.failed", level="error", why="line one\nline two \u2028 three")
    lines = (tmp_path / DAY).read_bytes().splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "ts": "2026-11-15T15:45:00.000000Z",
            "level": "info",
            "event": "plan.begun",
            "envelope_id": "e-1",
            "files": 3,
        },
        {
            "ts": "2026-11-15T15:45:00.000000Z",
            "level": "error",
            "event": "plan.failed",
            "why": "line one\nline two \u2028 three",
        },
    ]
    assert (tmp_path / DAY).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "agent_logs/.gitignore").read_text() == "*\n"


@pytest.mark.req("PX-27")
def test_secrets_are_masked_wherever_they_stand(log: ExecutorLog, tmp_path: Path) -> None:
    log.write("plan.failed", password="hunter2hunter2", nested={"said": ["key sk_live_" + "a1B2c3D4" * 3]})
    text = (tmp_path / DAY).read_text()
    assert "hunter2" not in text
    assert "a1B2c3D4a1B2" not in text


@pytest.mark.parametrize("planted", ["agent_logs", "agent_logs/executor", DAY])
def test_a_planted_link_gets_no_line_and_stops_no_plan(
    log: ExecutorLog, tmp_path: Path, planted: str, caplog: pytest.LogCaptureFixture
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("precious")
    (tmp_path / planted).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / planted).symlink_to(outside / "file" if planted == DAY else outside)
    with caplog.at_level(logging.WARNING):
        log.write("one")
        log.write("two")
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "precious"
    assert len(caplog.records) == 1, "said once"


@pytest.mark.parametrize("planted", ["fifo", "second name"])
def test_what_is_no_plain_file_gets_no_line(log: ExecutorLog, tmp_path: Path, planted: str) -> None:
    (tmp_path / DAY).parent.mkdir(parents=True)
    if planted == "fifo":
        os.mkfifo(tmp_path / DAY)
    else:
        (tmp_path / "precious").write_text("precious")
        os.link(tmp_path / "precious", tmp_path / DAY)
    log.write("one")
    assert planted == "fifo" or (tmp_path / "precious").read_text() == "precious"


def test_a_line_has_a_limit(log: ExecutorLog, tmp_path: Path) -> None:
    log.write("large", text="x" * (1 << 20))
    raw = (tmp_path / DAY).read_bytes()
    assert len(raw) < MAX_LINE
    assert json.loads(raw)["truncated"] is True


def test_what_cannot_be_json_is_no_reason_to_fail(log: ExecutorLog) -> None:
    log.write("odd", value=object())
    log.write("odd", value=float("nan"))


def test_lines_of_many_threads_do_not_mix(log: ExecutorLog, tmp_path: Path) -> None:
    def work(number: int) -> None:
        for _ in range(20):
            log.write("event", number=number, text="x" * 2000)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (tmp_path / DAY).read_text().splitlines()
    assert sorted(json.loads(line)["number"] for line in lines) == sorted(list(range(8)) * 20)
