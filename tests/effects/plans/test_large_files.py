"""Databases of a hundred megabytes, in the real sandbox: staged, switched and taken back in little memory."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from remit.core.ids import system_clock
from remit.effects.plans.steps import PlanStep, State, StepPlan, make_waves
from remit.fs.paths import locate_below
from remit.plans.runtime.runner import PLAIN_EFFECTS, PlanRunner, StepRunResult, StepTimes
from remit.sandbox.host import SandboxHost
from remit.sandbox.manager import import_paths
from remit.sandbox.orders import Build, Quotas

MIB: Final = 1 << 20
SIZE: Final = 100 * MIB
MEMORY: Final = 40 * MIB
TRAFFIC: Final = 1024 * MIB


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlanRunner]:
    lock = tmp_path_factory.mktemp("hosts") / "this.lock"
    build = Build(exchanges=True, open_files=512)
    quotas = Quotas(MEMORY, TRAFFIC, TRAFFIC, 120.0)
    with SandboxHost(PLAIN_EFFECTS, quotas, lock=lock, import_paths=import_paths(PLAIN_EFFECTS), build=build) as host:
        yield PlanRunner(host, PLAIN_EFFECTS, "e-1", system_clock)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def make(path: Path, seed: int, size: int = SIZE) -> State:
    """A file that nobody can compress, and its state."""
    piece = hashlib.shake_128(bytes([seed])).digest(MIB)
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for number in range(size // MIB):
            part = number.to_bytes(8, "big") + piece[8:]
            digest.update(part)
            file.write(part)
    path.chmod(0o644)
    return State(f"sha256:{digest.hexdigest()}", size, 0o644)


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def plan_of(*steps: PlanStep, paths: tuple[str, ...] = ("a",)) -> StepPlan:
    return StepPlan("0" * 20, paths, steps, make_waves(steps, {}))


def run(runner: PlanRunner, root: Path, plan: StepPlan, source: Path | None = None) -> StepRunResult:
    places = {number: locate_below(str(root), path) for number, path in enumerate(plan.paths)}
    times = StepTimes((60.0,) * len(plan.steps), 120.0)
    if source is None:
        return runner.execute(runner.prepare(plan, places, times), lambda *_: None)
    with source.open("rb") as kept:
        os.lseek(kept.fileno(), 12_345, os.SEEK_SET)
        return runner.execute(runner.prepare(plan, places, times, restoring={"kept": kept.fileno()}), lambda *_: None)


@pytest.mark.req("PX-18")
def test_a_replacement_of_a_hundred_megabytes_is_done_and_undone_in_little_memory(
    runner: PlanRunner, root: Path, tmp_path: Path
) -> None:
    before, after = make(root / "a", 1), make(tmp_path / "new", 2)
    inode = (root / "a").stat().st_ino
    metadata = {"mode": 0o644, "uid": os.getuid(), "gid": os.getgid(), "mtime_ns": "5", "atime_ns": "5"}
    step = PlanStep(0, "a001", "SQL_EXECUTE", "modify", 0, before=before, after=after, source="kept", metadata=metadata)
    plan = plan_of(step)
    carried = run(runner, root, plan, tmp_path / "new")
    assert (carried.problem, [result.state for result in carried.results]) == (None, ["done"])
    assert digest_of(root / "a") == after.sha256
    assert (root / "a").stat().st_mtime_ns == 5
    assert carried.used is not None
    assert carried.used.memory_bytes < MEMORY
    places = {0: locate_below(str(root), "a")}
    assert runner.finish(plan, places, 0, ())
    assert runner.undo(plan, places, 0, ()) == ()
    assert (digest_of(root / "a"), (root / "a").stat().st_ino) == (before.sha256, inode)
    assert os.listdir(root) == ["a"]


def test_what_a_rollback_removes_or_renames_may_be_as_large(runner: PlanRunner, root: Path) -> None:
    """The way back from a database that was created: its step has no source, and is bound by no limit."""
    first, second = make(root / "a", 1), make(root / "b", 2)
    plan = plan_of(
        PlanStep(0, "a001", "FILE_DELETE", "delete", 0, before=first),
        PlanStep(1, "a002", "FILE_RENAME", "rename", 1, 2, before=second, after=second),
        paths=("a", "b", "c"),
    )._replace(max_file_bytes=1)
    carried = run(runner, root, plan)
    assert (carried.problem, [result.state for result in carried.results]) == (None, ["done", "done"])
    assert not (root / "a").exists()
    assert digest_of(root / "c") == second.sha256


def test_one_wrong_byte_in_a_hundred_megabytes_is_caught(runner: PlanRunner, root: Path, tmp_path: Path) -> None:
    before, after = make(root / "a", 1), make(tmp_path / "new", 2)
    with (tmp_path / "new").open("r+b") as file:
        file.seek(SIZE - 1)
        last = file.read(1)
        file.seek(SIZE - 1)
        file.write(bytes([last[0] ^ 1]))
    step = PlanStep(0, "a001", "SQL_EXECUTE", "modify", 0, before=before, after=after, source="kept")
    carried = run(runner, root, plan_of(step), tmp_path / "new")
    (result,) = carried.results
    assert result.state == "failed"
    assert result.error is not None
    assert result.error["reason"] == "hash_mismatch"
    assert digest_of(root / "a") == before.sha256
    assert os.listdir(root) == ["a"]


def test_processes_that_run_at_once_share_a_source_and_do_not_disturb_each_other(
    runner: PlanRunner, root: Path, tmp_path: Path
) -> None:
    after = make(tmp_path / "new", 3, 24 * MIB)
    names = tuple("abcd")
    steps = [PlanStep(n, f"a{n:03}", "SQL_EXECUTE", "create", n, after=after, source="kept") for n in range(len(names))]
    plan = plan_of(*steps, paths=names)
    places = {number: locate_below(str(root), path) for number, path in enumerate(names)}
    with (tmp_path / "new").open("rb") as kept:
        given = {"kept": kept.fileno()}
        times = StepTimes((60.0,) * len(steps), 120.0)
        carried = runner.execute(runner.prepare(plan, places, times, restoring=given), lambda *_: None, lanes=4)
    assert [result.state for result in carried.results] == ["done"] * 4
    assert {digest_of(root / name) for name in names} == {after.sha256}
