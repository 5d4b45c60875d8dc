"""A workspace on each database, made the way a user makes it."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from remit.founding import initialise
from remit.workspace import Workspace

VARIABLE = "REMIT_TEST_LEDGER_URL"


class Hand:
    """A clock that a test can move."""

    def __init__(self) -> None:
        self.offset = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.offset


def manifest(task_id: str = "task-1", capability_id: str = "NO_EFFECT", **changes: object) -> bytes:
    task = {"task_id": task_id, "capability_id": capability_id, "inputs": {}, "constraints": {"reversible": True}}
    return json.dumps({**task, **changes}).encode()


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture(params=["sqlite", "postgresql"])
def workspace(request: pytest.FixtureRequest, tmp_path: Path, clock: Hand) -> Iterator[Workspace]:
    environ = {"REMIT_STATE": str(tmp_path / "state")}
    variable = None
    if request.param == "postgresql":
        variable = VARIABLE
        environ[VARIABLE] = request.getfixturevalue("postgres_url")
    (tmp_path / "project").mkdir()
    made, fresh = initialise(tmp_path / "project", environ, clock, url_variable=variable)
    assert fresh
    with made:
        yield made


@pytest.fixture
def kinds(workspace: Workspace) -> Callable[[], list[str]]:
    def read() -> list[str]:
        with workspace.store.reading() as connection:
            return [row[0] for row in connection.rows("SELECT kind FROM ledger_entries ORDER BY seq")]

    return read
