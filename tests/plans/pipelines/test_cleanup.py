"""What a program leaves can be removed, however it was made: else one run would be in the way of all later ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from remit.plans.engines.database_files import WorkFolder, sweep
from remit.plans.model.folders_cleanup import remove_tree

DEEP = """
import os
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
open("last", "w").close()
"""


def nest(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", DEEP], cwd=folder, check=True)


@pytest.mark.req("PX-21", "PX-28")
def test_folders_too_deep_to_be_walked_are_swept_away(tmp_path: Path) -> None:
    left = WorkFolder.make(tmp_path)
    nest(left.path)
    os.close(left._lock)  # noqa: SLF001 - as if its process had been killed
    assert sweep(tmp_path) == 1
    assert os.listdir(tmp_path) == []


@pytest.mark.req("PX-21")
def test_a_folder_is_removed_when_it_is_closed_however_deep(tmp_path: Path) -> None:
    with WorkFolder.make(tmp_path) as folder:
        nest(folder.path)
    assert os.listdir(tmp_path) == []


def test_links_are_removed_and_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("mine")
    gone = tmp_path / "gone"
    (gone / "below").mkdir(parents=True)
    (gone / "link").symlink_to(kept)
    (gone / "below" / "link").symlink_to(kept)
    remove_tree(gone)
    assert not gone.exists()
    assert (kept / "file").read_text() == "mine"
