"""A place to crash in, on either database."""

from pathlib import Path

import pytest

from tests.crash.store.cases import MakePlace
from tests.crash.store.crash_workspace import Place


@pytest.fixture
def make_place(tmp_path: Path, request: pytest.FixtureRequest) -> MakePlace:
    """`make_place("sqlite")` or `make_place("postgresql")`: empty, without keys or tables."""

    def make(database: str) -> Place:
        folder = tmp_path / "state"
        folder.mkdir(mode=0o700)
        return Place(folder, request.getfixturevalue("postgres_url") if database == "postgresql" else "")

    return make
