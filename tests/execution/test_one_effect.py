"""Two processes with the same task at the same time have one effect and identical results."""

import json
import os
import subprocess
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

import remit
from tests.support import preloaded
from tests.support.task_workspace import file_task, made_workspace

ROUNDS = 500 if os.environ.get("REMIT_LONG") == "1" else 20
CAPABILITIES = ("FILE_MOVE", "FILE_COPY", "FILE_DELETE")
RACER = Path(__file__).with_name("task_racer.py")


def start(stack: ExitStack, project: Path, environ: dict[str, str]) -> "subprocess.Popen[str]":
    racer = subprocess.Popen(
        [preloaded.python(), str(RACER), str(project)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**environ, "PYTHONPATH": str(Path(remit.__file__).parents[1])},
    )
    stack.enter_context(racer)
    stack.callback(racer.kill)
    return racer


def hear(racer: "subprocess.Popen[str]") -> str:
    assert racer.stdout is not None
    return racer.stdout.readline().rstrip("\n")


@pytest.mark.req("EI-12")
def test_two_processes_with_the_same_task_have_one_effect_and_one_result(tmp_path: Path, base: Path) -> None:
    environ = {"REMIT_STATE": str(tmp_path / "state")}
    with made_workspace(tmp_path, environ) as workspace, ExitStack() as stack:
        racers = [start(stack, workspace.root, environ) for _ in range(2)]
        assert [hear(racer) for racer in racers] == ["ready", "ready"]
        for number in range(ROUNDS):
            capability_id = CAPABILITIES[number % 3]
            source, destination = base / f"{number}-a", base / f"{number}-b"
            source.write_bytes(b"%d" % number)
            made = None if capability_id == "FILE_DELETE" else destination
            asked = file_task(f"task-{number}", capability_id, source, made)
            lease = workspace.issue_lease(asked).canonical()
            line = json.dumps({"manifest": asked.decode(), "lease": lease.decode()}) + "\n"
            for racer in racers if number % 2 else reversed(racers):
                assert racer.stdin is not None
                racer.stdin.write(line)
                racer.stdin.flush()
            first, second = (hear(racer) for racer in racers)
            assert first == second
            assert json.loads(first)["status"] == "SUCCESS", first
            there = {path.name for path in (source, destination) if path.exists()}
            assert there == {"FILE_MOVE": {destination.name}, "FILE_DELETE": set()}.get(
                capability_id, {source.name, destination.name}
            )
        with workspace.store.reading() as connection:
            kinds = Counter(row[0] for row in connection.rows("SELECT kind FROM ledger_entries"))
        assert kinds["task.intent"] == kinds["task.outcome"] == ROUNDS
        assert kinds["task.refused"] == 0
        assert workspace.recover() == []
        assert workspace.verify_ledger().holds
