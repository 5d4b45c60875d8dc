"""What became of the files since the run is told apart: as left, as before already, or somebody else's."""

from pathlib import Path

import pytest

from remit.core.errors import Reason, RefusedError
from remit.plans.storage.drift import FileStatus, check_files, read_states, select
from remit.plans.storage.manifest import fold
from tests.plans.storage.project import AT, Action, Project, state_of

NOTHING: list[str] = []


@pytest.fixture
def project(tmp_path: Path) -> Project:
    place = Project(tmp_path / "project")
    place.write("f", b"before", 0o640)
    return place


MODIFY: Action = ("modify", "f", b"after")
DELETE: Action = ("delete", "f", None)
RENAME: Action = ("rename", "f", "g")
CREATE: Action = ("create", "g", b"new")


@pytest.mark.req("PX-16")
@pytest.mark.parametrize(
    "action, then, wanted",
    [
        (MODIFY, {}, "left"),
        (MODIFY, {"f": (b"after", 0o600)}, "drifted"),
        (MODIFY, {"f": (b"before", 0o640)}, "before"),
        (MODIFY, {"f": (b"before", 0o644)}, "drifted"),
        (MODIFY, {"f": (b"other", 0o640)}, "drifted"),
        (MODIFY, {"f": None}, "drifted"),
        (DELETE, {}, "left"),
        (DELETE, {"f": (b"before", 0o640)}, "before"),
        (DELETE, {"f": (b"other", 0o640)}, "drifted"),
        (CREATE, {}, "left"),
        (CREATE, {"g": (b"new", 0o600)}, "drifted"),
        (CREATE, {"g": None}, "before"),
        (CREATE, {"g": (b"other", 0o644)}, "drifted"),
        (RENAME, {}, "left"),
        (RENAME, {"g": None, "f": (b"before", 0o640)}, "before"),
        (RENAME, {"g": None}, "drifted"),
        (RENAME, {"f": (b"other", 0o640)}, "drifted"),
        (RENAME, {"f": (b"before", 0o640)}, "drifted"),  # g is there as well
        (RENAME, {"g": (b"other", 0o640)}, "drifted"),
        (RENAME, {"g": (b"before", 0o600)}, "drifted"),
    ],
)
def test_a_file_is_as_left_as_before_or_drifted(
    project: Project, action: Action, then: dict[str, tuple[bytes, int] | None], wanted: FileStatus
) -> None:
    done = project.run_plan([action])
    for path, content in then.items():
        project.write(path, *content) if content else (project.root / path).unlink()
    [(look, state)] = check_files(project.base, done.manifest, NOTHING).values()
    assert look == wanted
    assert state == project.state("g" if action in {RENAME, CREATE} else "f")


def test_a_folder_that_the_plan_made_is_there_or_not(project: Project) -> None:
    done = project.run_plan([("create", "new/deep/f", b"x")])
    looks = check_files(project.base, done.manifest, NOTHING)
    assert looks[done.checkpoint("new/deep")] == ("left", None)
    (project.root / "new/deep/f").unlink()
    (project.root / "new/deep").rmdir()
    looks = check_files(project.base, done.manifest, NOTHING)
    assert looks[done.checkpoint("new/deep")] == ("before", None)
    assert looks[done.checkpoint("new/deep/f")] == ("before", None)
    assert looks[done.checkpoint("new")] == ("left", None)


@pytest.mark.req("PX-16", "PX-23")
@pytest.mark.parametrize("planted", ["link", "folder", "link above"])
def test_what_is_no_file_in_the_place_of_one_stops_all(project: Project, tmp_path: Path, planted: str) -> None:
    project.write("d/f", b"before")
    done = project.run_plan([("modify", "d/f", b"after")])
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_bytes(b"before")
    (project.root / "d/f").unlink()
    match planted:
        case "link":
            (project.root / "d/f").symlink_to(outside / "f")
        case "folder":
            (project.root / "d/f").mkdir()
        case _:
            (project.root / "d").rmdir()
            (project.root / "d").symlink_to(outside)
    with pytest.raises(RefusedError) as caught:
        check_files(project.base, done.manifest, NOTHING)
    assert caught.value.reason is Reason.DRIFTED
    assert caught.value.where == "d/f"


def test_only_chosen_checkpoints_are_looked_at(project: Project) -> None:
    done = project.run_plan([MODIFY, CREATE])
    chosen = done.checkpoint("g")
    assert set(check_files(project.base, done.manifest, [chosen])) == {chosen}
    with pytest.raises(RefusedError, match="no such checkpoint"):
        check_files(project.base, done.manifest, [chosen, "0000"])


def test_restored_checkpoints_are_not_selected_again(project: Project) -> None:
    done = project.run_plan([MODIFY, CREATE])
    assert [c.file_path for c in select(done.manifest, [])] == ["g", "f"], "in the order of restoring"
    assert select(fold(done.manifest, [], AT), []) == select(done.manifest, [])


def test_a_missing_folder_means_a_missing_file(project: Project) -> None:
    assert read_states(project.base, ["no/such/f", "f"]) == {"no/such/f": None, "f": state_of(b"before", 0o640)}
