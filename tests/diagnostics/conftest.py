"""A sound workspace, for one test to spoil."""

from pathlib import Path

import pytest

from tests.diagnostics.sound_workspace import Place, make_place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)
