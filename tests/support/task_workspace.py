"""A workspace on each database, made the way a user makes it."""

import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from remit.contracts.tasks.result import ExecutionResult
from remit.core.ids import Clock, system_clock
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace

VARIABLE = "REMIT_TEST_LEDGER_URL"
CONTENT = b"some content\n"


class MovableClock:
    """A clock that a test can move."""

    def __init__(self) -> None:
        self.offset = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.offset


def manifest(task_id: str = "task-1", capability_id: str = "NO_EFFECT", **changes: object) -> bytes:
    task = {"task_id": task_id, "capability_id": capability_id, "inputs": {}, "constraints": {"reversible": True}}
    return json.dumps({**task, **changes}).encode()


def made_workspace(
    folder: Path, environ: dict[str, str], clock: Clock = system_clock, variable: str | None = None, **settings: object
) -> Workspace:
    """A new workspace beside a directory `base`, in which tasks may work."""
    project, base = folder / "project", folder / "base"
    project.mkdir()
    base.mkdir()
    made, fresh = initialise(project, environ, clock, url_variable=variable)
    assert fresh
    made.close()
    config = {"version": 1, "base_directories": [str(base.resolve())], **settings}
    (project / "remit.yaml").write_text(json.dumps(config))  # which is YAML, too
    return Workspace.open(project, environ=environ, clock=clock)


def file_task(task_id: str, capability_id: str, source: Path | None, destination: Path | None = None) -> bytes:
    paths = {"source_path": source, "destination_path": destination}
    return manifest(task_id, capability_id, inputs={name: str(path) for name, path in paths.items() if path})


def run(workspace: Workspace, asked: bytes) -> ExecutionResult:
    return workspace.execute_task(asked, workspace.issue_lease(asked).canonical())


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.005)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return (tmp_path / "base").resolve()


@pytest.fixture
def clock() -> MovableClock:
    return MovableClock()


@pytest.fixture(params=["sqlite", "postgresql"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path, clock: MovableClock) -> Iterator[Workspace]:
    environ = {"REMIT_STATE": str(tmp_path / "state")}
    variable = None
    if request.param == "postgresql":
        variable = VARIABLE
        environ[VARIABLE] = request.getfixturevalue("postgres_url")
    with made_workspace(tmp_path, environ, clock, variable) as made:
        yield made


@pytest.fixture
def kinds(workspace: Workspace) -> Callable[[], list[str]]:
    def read() -> list[str]:
        with workspace.store.reading() as connection:
            return [row[0] for row in connection.rows("SELECT kind FROM ledger_entries ORDER BY seq")]

    return read


@pytest.fixture
def source(workspace: Workspace, base: Path) -> Path:
    path = base / "source"
    path.write_bytes(CONTENT)
    path.chmod(0o640)
    os.utime(path, ns=(1_600_000_000_123_456_789, 1_500_000_000_987_654_321))
    return path


def refused(result: ExecutionResult, code: str = "EXECUTION_FAILED") -> str:
    assert result.error is not None
    assert result.error.error_code == code
    return result.error.message
