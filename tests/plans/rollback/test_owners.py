"""A file that is restored by somebody who may not give it to its owner: that is said."""

from pathlib import Path

import pytest

from remit.contracts.plans.rollback import RollbackManifest, RollbackOrder
from remit.plans.rollback.checkpoint import RollbackCheckpoint
from remit.plans.rollback.preview import manifest_with_notes
from remit.plans.storage.drift import paths_of, read_states, select
from remit.plans.storage.manifest import OTHER_OWNER, inverse_steps, note_other_owner
from tests.contracts.examples import BY_LABEL
from tests.plans.storage.project import Done, Project

pytestmark = [pytest.mark.req("PX-15")]
ALL = RollbackOrder.from_tree(BY_LABEL["rollback-order"].document | {"checkpoints": []})


@pytest.fixture
def project(tmp_path: Path) -> Project:
    place = Project(tmp_path / "project")
    place.write("mine", b"m")
    place.write("theirs", b"t")
    place.write("renamed", b"r")
    return place


def owned_by_another(manifest: RollbackManifest, path: str) -> RollbackManifest:
    checkpoints = tuple(
        one.model_copy(update={"original_owner": "12345:54321"}) if one.file_path == path else one
        for one in manifest.checkpoints
    )
    return manifest.model_copy(update={"checkpoints": checkpoints})


def restored(project: Project, done: Done, manifest: RollbackManifest) -> RollbackCheckpoint:
    """As this user leaves the files, who may not give them away."""
    states = read_states(project.base, paths_of(select(manifest, ())))
    steps = inverse_steps(manifest, (), states, "0" * 20, force=False)
    project.write("mine", b"m")
    project.write("theirs", b"t")
    (project.root / "new").rename(project.root / "renamed")
    return RollbackCheckpoint(ALL, project.base, done.name, manifest, steps, (), ())


@pytest.mark.parametrize("path", ["theirs", "renamed", None])
def test_only_files_that_were_made_again_and_belong_to_another_owner_are_named(
    project: Project, path: str | None
) -> None:
    done = project.run_plan([("delete", "mine", None), ("modify", "theirs", b"T"), ("rename", "renamed", "new")])
    manifest = owned_by_another(done.manifest, path) if path else done.manifest
    notes = manifest_with_notes(restored(project, done, manifest)).notes
    assert notes.endswith(f" 1 restored files {OTHER_OWNER} theirs") == (path == "theirs")
    assert (OTHER_OWNER in notes) == (path == "theirs")


def test_a_note_on_many_files_stays_short(project: Project) -> None:
    done = project.run_plan([("delete", "mine", None)])
    notes = note_other_owner(done.manifest, ["x" * 200] * 5_000).notes
    assert len(notes) < 3_000
    assert note_other_owner(done.manifest, []) == done.manifest
