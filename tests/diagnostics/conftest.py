"""A sound workspace, for one test to spoil."""

from pathlib import Path

import pytest

from tests.diagnostics.sound_workspace import SoundWorkspace, make_sound_workspace


@pytest.fixture
def sound_workspace(tmp_path: Path) -> SoundWorkspace:
    return make_sound_workspace(tmp_path)
