"""Creating, moving and losing a workspace. No new history starts silently, and a refusal changes nothing."""

import json
import shutil
from pathlib import Path

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError
from remit.core.ids import system_clock
from remit.fs.state_dir import locate_state
from remit.ledger.entry import NewEntry
from remit.workspace.create import adopt, initialise
from remit.workspace.workspace import Workspace
from tests.support import preloaded
from tests.support.child_process import Fault, run_child
from tests.support.task_workspace import VARIABLE, manifest


class Place:
    """A project folder and its surroundings."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.project.mkdir()
        self.environ = {"REMIT_STATE": str(folder / "state")}

    def init(self, **options: object) -> tuple[Workspace, bool]:
        workspace, fresh = initialise(self.project, self.environ, system_clock, **options)  # type: ignore[arg-type]
        workspace.close()
        return workspace, fresh

    @property
    def state(self) -> Path:
        return locate_state(self.project, self.environ).path


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_moved_workspace_is_recognised_and_its_state_can_be_adopted(place: Place, tmp_path: Path) -> None:
    place.init()
    old_state = place.state
    place.project = place.project.rename(tmp_path / "renamed")
    with pytest.raises(EnvironmentFailureError, match="--adopt"):
        Workspace.open(place.project, environ=place.environ)
    with pytest.raises(RefusedError, match="which has a state directory, is missing") as refused:
        place.init()
    assert str(old_state) in refused.value.next_step
    with adopt(place.project, old_state, place.environ, system_clock) as workspace:
        assert workspace.execute_task(manifest(), workspace.issue_lease(manifest()).canonical()).status == "SUCCESS"
        assert workspace.verify_ledger().holds
        with workspace.store.reading() as connection:
            kinds = [row[0] for row in connection.rows("SELECT kind FROM ledger_entries ORDER BY seq")]
    assert kinds[:2] == ["workspace.created", "workspace.moved"]
    assert not old_state.exists()
    Workspace.open(place.project, environ=place.environ).close()
    assert place.init()[1] is False


def test_an_adoption_that_was_killed_is_completed(place: Place, tmp_path: Path) -> None:
    place.init()
    old_state = place.state
    place.project = place.project.rename(tmp_path / "renamed")
    command = [preloaded.python(), "-m", "remit", "init", str(place.project), "--adopt", str(old_state)]
    ended = run_child(command, fault=Fault("adopt.renamed"), environment=place.environ)
    assert ended.killed, ended
    assert place.init()[1] is False
    with Workspace.open(place.project, environ=place.environ) as workspace:
        assert workspace.settings.root == str(place.project)
        assert workspace.verify_ledger().holds
        with workspace.store.reading() as connection:
            kinds = [row[0] for row in connection.rows("SELECT kind FROM ledger_entries ORDER BY seq")]
    assert kinds == ["workspace.created", "workspace.moved"]


def test_another_project_can_be_created_beside_a_lost_one(place: Place, tmp_path: Path) -> None:
    place.init()
    place.project = place.project.rename(tmp_path / "renamed")
    assert place.init(new=True)[1] is True


def test_the_state_of_an_existing_workspace_cannot_be_adopted(place: Place, tmp_path: Path) -> None:
    place.init()
    copy = tmp_path / "copy"
    shutil.copytree(place.project, copy)
    with pytest.raises(RefusedError, match="still exists"):
        adopt(copy, place.state, place.environ, system_clock)
    Workspace.open(place.project, environ=place.environ).close()


@pytest.mark.parametrize("lost", ["keys", "ledger.sqlite3"])
def test_a_lost_part_of_the_state_is_never_replaced_by_an_empty_one(place: Place, lost: str) -> None:
    place.init()
    gone = place.state / lost
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    before = files(place.state)
    with pytest.raises(EnvironmentFailureError, match="backup") as refused:
        place.init()
    assert refused.value.reason is Reason.STATE_MISSING
    assert files(place.state) == before


def test_keys_of_another_workspace_cannot_continue_this_ledger(place: Place, tmp_path: Path) -> None:
    place.init()
    (tmp_path / "other").mkdir()
    other = Place(tmp_path / "other")
    other.init()
    shutil.rmtree(place.state / "keys")
    shutil.copytree(other.state / "keys", place.state / "keys")
    with pytest.raises(EnvironmentFailureError, match="other keys"):
        place.init()


def test_a_second_machine_with_keys_of_its_own_cannot_join_a_ledger(place: Place, postgres_url: str) -> None:
    place.environ[VARIABLE] = postgres_url
    place.init(url_variable=VARIABLE)
    second = {**place.environ, "REMIT_STATE": place.environ["REMIT_STATE"] + "-2"}
    with pytest.raises(EnvironmentFailureError, match="keys that signed them are missing"):
        initialise(place.project, second, system_clock, url_variable=VARIABLE)
    assert not Path(second["REMIT_STATE"]).exists()
    shutil.copytree(place.environ["REMIT_STATE"], second["REMIT_STATE"])
    with initialise(place.project, second, system_clock)[0] as joined:
        assert joined.execute_task(manifest(), joined.issue_lease(manifest()).canonical()).status == "SUCCESS"
        assert joined.verify_ledger().holds


def test_a_mistyped_variable_leaves_nothing_behind(place: Place, postgres_url: str) -> None:
    with pytest.raises(EnvironmentFailureError, match="MISTYPED"):
        place.init(url_variable="MISTYPED")
    with pytest.raises(RefusedError):
        place.init(url_variable="not a name")
    assert not Path(place.environ["REMIT_STATE"]).exists()
    assert list(place.project.iterdir()) == []
    place.environ[VARIABLE] = postgres_url
    assert place.init(url_variable=VARIABLE)[1] is True


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version: 2\n",
        "version: [\n",
        "version: 1\nunknown: 1\n",
        "version: 1\nroot: /etc\n",
        "version: 1\nroot: ..\n",
    ],
)
def test_a_config_that_is_not_valid_stops_everything(place: Place, text: str) -> None:
    place.init()
    (place.project / "remit.yaml").write_text(text)
    with pytest.raises(RemitError, match=r"remit\.yaml"):
        Workspace.open(place.project, environ=place.environ)
    with pytest.raises(RemitError, match=r"remit\.yaml"):
        place.init()


def test_a_folder_in_place_of_the_config_is_refused(place: Place) -> None:
    (place.project / "remit.yaml").mkdir()
    with pytest.raises(RefusedError, match="not a file"):
        place.init()
    assert not Path(place.environ["REMIT_STATE"]).exists()


def test_a_folder_that_does_not_exist_is_no_part_of_the_workspace_above_it(place: Place) -> None:
    place.init()
    with pytest.raises(RefusedError, match="no such folder"):
        Workspace.open(place.project / "nowhere", environ=place.environ)
    (place.project / "below").mkdir()
    Workspace.open(place.project / "below", environ=place.environ).close()


def test_a_state_directory_inside_any_workspace_is_refused(place: Place, tmp_path: Path) -> None:
    place.init()
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(RefusedError, match="overlaps a workspace"):
        initialise(other, {"REMIT_STATE": str(place.project / "state")}, system_clock)


def test_every_chain_survives_the_revocation_of_the_audit_key(workspace: Workspace) -> None:
    workspace.ledger.append(NewEntry("other-tenant", "x.y", "c", {}))
    workspace.rotate_key("audit", revoke=True)
    verdict = workspace.verify_ledger()
    assert verdict.holds, verdict
    old, _ = workspace.rotate_key("audit")
    workspace.revoke_key(old.key_id)
    assert workspace.verify_ledger().holds
    with pytest.raises(RefusedError, match="already"):
        workspace.revoke_key(old.key_id)
    with pytest.raises(RefusedError, match="no key has this id"):
        workspace.revoke_key("nobody")
    active = workspace.keyring.active("audit")
    assert active is not None
    with pytest.raises(RefusedError, match="still active"):
        workspace.revoke_key(active.key_id)


def test_the_settings_hold_the_name_of_the_variable_and_never_the_address(place: Place, postgres_url: str) -> None:
    place.environ[VARIABLE] = postgres_url
    place.init(url_variable=VARIABLE)
    settings = json.loads((place.state / "workspace.json").read_text())
    assert settings["url_variable"] == VARIABLE
    assert postgres_url not in json.dumps(settings)
