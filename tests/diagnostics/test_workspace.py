"""A workspace: each seeded fault is found, graded and answered with what to do; a sound one passes."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from remit.authority.capability_token import TokenRequest
from remit.cli.doctor import examine_workspace
from remit.contracts.browser.browser import TokenConstraints
from remit.core.ids import render_time, system_clock
from remit.crypto.keyring import create_keys, rotate_key
from remit.diagnostics import workspace
from remit.ledger.clock_acceptance import ChainClock
from remit.workspace.workspace import Workspace
from tests.diagnostics.sound_workspace import ROOT, SoundWorkspace, change, key_file

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def test_a_sound_workspace_passes_every_check(sound_workspace: SoundWorkspace) -> None:
    checks = sound_workspace.run_checks()
    place_on_disk = {"file system", "free space", "durable write"}  # the machine's affair: it may warn there
    optional = {name for name, check in checks.items() if check.status == "absent"}
    assert optional == {"catalogue"}
    assert {name for name, check in checks.items() if check.status != "ok"} - optional <= place_on_disk
    assert list(checks) == [
        "workspace",
        "configuration",
        "base directories",
        "sandbox",
        "exchange",
        "reports",
        "catalogue",
        "state directory",
        "file system",
        "free space",
        "durable write",
        "key files",
        "keyring",
        "store",
        "tables",
        "anchors",
        "guards",
        "clock and ledger",
    ]


def test_the_keyring_names_as_many_active_keys_as_there_are_key_files(sound_workspace: SoundWorkspace) -> None:
    assert "policy" not in sound_workspace.run_checks()["keyring"].found
    with Workspace.open(sound_workspace.root, environ=sound_workspace.environ) as opened:
        opened.tokens.issue(TokenRequest("bot", ("plan.propose",), TokenConstraints(), timedelta(hours=1)))
    checks = sound_workspace.run_checks()
    assert checks["key files"].found.startswith("5 private keys")
    assert checks["keyring"].found == "an active key for each of kernel, protocol, executor, audit, policy"


def test_reports_and_backups_that_others_can_read_are_a_warning(sound_workspace: SoundWorkspace) -> None:
    backups = sound_workspace.root / "agent_outputs/reports/run/backups"
    backups.mkdir(parents=True)
    backups.chmod(0o700)
    for name, mode in {"backups/0001-.env.bak": 0o644, "change_log.json": 0o600, "../../.gitignore": 0o644}.items():
        (backups.parent / name).touch()
        (backups.parent / name).chmod(mode)
    assert sound_workspace.run_checks()["reports"].status == "ok"  # the folder with the backup is closed
    backups.chmod(0o755)
    check = sound_workspace.run_checks()["reports"]
    assert (check.status, "0001-.env.bak" in check.found) == ("warn", True)
    assert check.next_step.startswith(f"chmod -R go-rwx {sound_workspace.root}/agent_outputs")
    shutil.rmtree(sound_workspace.root / "agent_outputs")
    (sound_workspace.root / "agent_outputs").symlink_to(ROOT)  # the files of another folder are none of Remit's
    assert sound_workspace.run_checks()["reports"].status == "ok"


def test_looking_changes_nothing_in_the_state_directory(sound_workspace: SoundWorkspace) -> None:
    def content() -> dict[str, bytes]:
        files = (path for path in sound_workspace.state.path.rglob("*") if path.is_file())
        return {str(path): path.read_bytes() for path in files if not path.name.endswith(("-wal", "-shm"))}

    before = content()
    sound_workspace.run_checks()
    assert content() == before


def test_a_private_key_is_never_opened(sound_workspace: SoundWorkspace) -> None:
    """The check-up is run where opening one would be seen."""
    program = (
        "import os, sys, pathlib; from remit.cli.doctor import examine; from remit.core.ids import system_clock\n"
        "sys.addaudithook(lambda event, args: event == 'open' and str(args[0]).endswith('.pem') and os._exit(99))\n"
        "examine(pathlib.Path(sys.argv[1]), os.environ, system_clock)\n"
    )
    environ = {**os.environ, **sound_workspace.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", program, sound_workspace.root], env=environ, check=False)
    assert done.returncode == 0


def test_the_key_that_signs_tokens_is_known_and_missed(sound_workspace: SoundWorkspace) -> None:
    with Workspace.open(sound_workspace.root, environ=sound_workspace.environ) as opened:
        opened.tokens.issue(TokenRequest("bot", ("browser.click",), TokenConstraints(), timedelta(hours=1)))
    assert sound_workspace.run_checks()["keyring"].status == "ok"
    (key,) = (sound_workspace.state.keys / "policy").glob("*.pem")
    key.unlink()
    check = sound_workspace.run_checks()["keyring"]
    assert (check.status, "remit token rotate-key" in check.next_step) == ("fail", True)


def _world_readable_key(sound_workspace: SoundWorkspace) -> None:
    key_file(sound_workspace.state).chmod(0o644)


def _key_behind_a_link(sound_workspace: SoundWorkspace) -> None:
    path = key_file(sound_workspace.state)
    path.rename(sound_workspace.root / "stolen.pem")
    path.symlink_to(sound_workspace.root / "stolen.pem")


def _lost_keys(sound_workspace: SoundWorkspace) -> None:
    shutil.rmtree(sound_workspace.state.keys)


def _lost_private_key(sound_workspace: SoundWorkspace) -> None:
    key_file(sound_workspace.state, "audit").unlink()


def _keyring_of_somebody_else(sound_workspace: SoundWorkspace) -> None:
    other = sound_workspace.root / "other"
    create_keys(other, system_clock)
    shutil.copy(other / "keyring.json", sound_workspace.state.keys / "keyring.json")


def _keyring_with_a_wrong_id(sound_workspace: SoundWorkspace) -> None:
    path = sound_workspace.state.keys / "keyring.json"
    document = json.loads(path.read_bytes())
    first, second = document["keys"][:2]
    first["key_id"], second["key_id"] = second["key_id"], first["key_id"]
    path.write_text(json.dumps(document))


def _keyring_without_a_role(sound_workspace: SoundWorkspace) -> None:
    path = sound_workspace.state.keys / "keyring.json"
    document = json.loads(path.read_bytes())
    document["keys"] = [key for key in document["keys"] if key["role"] != "protocol"]
    path.write_text(json.dumps(document))


def _keyring_of_rubbish(sound_workspace: SoundWorkspace) -> None:
    (sound_workspace.state.keys / "keyring.json").write_bytes(b"\xff{")


def _missing_store(sound_workspace: SoundWorkspace) -> None:
    sound_workspace.state.database.unlink()


def _damaged_store(sound_workspace: SoundWorkspace) -> None:
    for path in sound_workspace.state.path.glob("ledger.sqlite3*"):
        path.write_bytes(b"this is no database" * 1_000)


def _open_store_file(sound_workspace: SoundWorkspace) -> None:
    sound_workspace.state.database.chmod(0o666)


def _outdated_store(sound_workspace: SoundWorkspace) -> None:
    change(sound_workspace, "DELETE FROM schema_migrations")


def _newer_store(sound_workspace: SoundWorkspace) -> None:
    change(sound_workspace, "INSERT INTO schema_migrations VALUES (9999, 'future', 'sha256:0', '2030-01-01T00:00:00Z')")


def _store_of_other_tables(sound_workspace: SoundWorkspace) -> None:
    change(sound_workspace, "UPDATE schema_migrations SET digest = 'sha256:0'")


def _lost_guard(sound_workspace: SoundWorkspace) -> None:
    change(sound_workspace, "DROP TRIGGER ledger_entries_no_delete")


_ENTRY = """INSERT INTO ledger_entries
  (tenant_id, seq, entry_id, created_at, kind, correlation_id, payload, prev_hash, hash)
  VALUES ('zz', 1, 'e', ?, 'k', 'c', '{}', 'p', 'h')"""


def _entry_from_the_future(sound_workspace: SoundWorkspace) -> None:
    change(sound_workspace, _ENTRY, render_time(datetime.now(UTC) + timedelta(hours=3)))


def _entry_without_a_time(sound_workspace: SoundWorkspace) -> None:
    change(sound_workspace, _ENTRY, "noon")


def _open_state(sound_workspace: SoundWorkspace) -> None:
    sound_workspace.state.path.chmod(0o755)


def _lost_state(sound_workspace: SoundWorkspace) -> None:
    shutil.rmtree(sound_workspace.state.path)


def _lost_settings(sound_workspace: SoundWorkspace) -> None:
    sound_workspace.state.settings.unlink()


def _wrong_config(sound_workspace: SoundWorkspace) -> None:
    (sound_workspace.root / "remit.yaml").write_text("version: 1\nroot: .\nno_such_setting: 1\n")


def _configure(sound_workspace: SoundWorkspace, text: str) -> None:
    with (sound_workspace.root / "remit.yaml").open("a") as config:
        config.write(text)


def _missing_base(sound_workspace: SoundWorkspace) -> None:
    _configure(sound_workspace, f"base_directories: [{sound_workspace.root}, {sound_workspace.root / 'nowhere'}]\n")


def _base_behind_a_link(sound_workspace: SoundWorkspace) -> None:
    (sound_workspace.root / "link").symlink_to(sound_workspace.root)
    _configure(sound_workspace, f"base_directories: [{sound_workspace.root / 'link'}]\n")


def _base_over_the_state(sound_workspace: SoundWorkspace) -> None:
    _configure(sound_workspace, f"base_directories: [{sound_workspace.state.path.parent}]\n")


@pytest.mark.parametrize(
    "spoil, name, found, next_step",
    [
        (_world_readable_key, "key files", "open to others (mode 0644)", "remit keys rotate ROLE --revoke"),
        (_key_behind_a_link, "key files", "is a symbolic link", "chmod -R go-rwx"),
        (_lost_keys, "key files", "is missing", "backup"),
        (_lost_keys, "keyring", "is missing", "backup"),
        (_lost_private_key, "keyring", "the private key is missing for: audit", "remit keys rotate audit"),
        (_keyring_of_somebody_else, "keyring", "the private key is missing for: kernel", "backup"),
        (_keyring_with_a_wrong_id, "keyring", "a key id does not fit its key", "Fix"),
        (_keyring_without_a_role, "keyring", "no single active key for: protocol", "remit init"),
        (_keyring_of_rubbish, "keyring", "keyring.json", ""),
        (_missing_store, "store", "the ledger's database is missing", "backup"),
        (_damaged_store, "store", "damaged", "restore the last backup"),
        (_open_store_file, "store", "open to others (mode 0666)", "chmod -R go-rwx"),
        (_open_store_file, "state directory", "open to others (mode 0666)", "chmod -R go-rwx"),
        (_outdated_store, "tables", "the store lacks migration 0001", "remit migrate"),
        (_newer_store, "tables", "newer than this program", "Update Remit"),
        (_store_of_other_tables, "tables", "differs from the one that built this store", "backup"),
        (_lost_guard, "guards", "lost its guard ledger_entries_no_delete", "remit ledger verify"),
        (_entry_from_the_future, "clock and ledger", "behind the ledger's newest entry", "remit clock accept"),
        (_entry_without_a_time, "clock and ledger", "ValueError", ""),
        (_open_state, "state directory", "open to others (mode 0755)", "chmod -R go-rwx"),
        (_lost_state, "state directory", "is missing", "remit init"),
        (_lost_settings, "workspace", "not finished", "remit init"),
        (_wrong_config, "configuration", "no_such_setting", ""),
        (
            _missing_base,
            "base directories",
            "does not exist, or is not one (remit.yaml, $.base_directories[1]",
            "Create",
        ),
        (_base_behind_a_link, "base directories", "(remit.yaml, $.base_directories[0]", "Write its real path"),
        (_base_over_the_state, "base directories", "a task could reach the keys", "REMIT_STATE"),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)
def test_a_seeded_fault_fails_its_check_and_names_the_way_out(
    sound_workspace: SoundWorkspace, spoil: Callable[[SoundWorkspace], None], name: str, found: str, next_step: str
) -> None:
    assert sound_workspace.run_checks()[name].status == "ok"
    spoil(sound_workspace)
    check = sound_workspace.run_checks()[name]
    assert check.status == "fail"
    assert found in check.found
    assert next_step in check.next_step
    assert check.next_step


def test_base_directories_are_named_and_none_means_that_no_task_may_touch_a_file(
    sound_workspace: SoundWorkspace,
) -> None:
    assert sound_workspace.run_checks()["base directories"].found == "none, so no task may touch a file"
    _configure(sound_workspace, f"base_directories: [{sound_workspace.root}]\n")
    check = sound_workspace.run_checks()["base directories"]
    assert (check.status, check.found) == ("ok", str(sound_workspace.root))


def test_a_workspace_that_runs_effects_unconfined_is_warned_of_what_that_means(sound_workspace: SoundWorkspace) -> None:
    assert sound_workspace.run_checks()["sandbox"].status == "ok"
    _configure(sound_workspace, "sandbox: unsafe-none\n")
    check = sound_workspace.run_checks()["sandbox"]
    assert check.status == "warn"
    assert "all rights of this user" in check.found
    assert "sandbox: required" in check.next_step


def test_settings_that_cannot_be_read_are_one_failed_check_and_not_three(sound_workspace: SoundWorkspace) -> None:
    _wrong_config(sound_workspace)
    assert not {"base directories", "sandbox"} & sound_workspace.run_checks().keys()


def test_a_missing_store_is_not_made_by_looking_for_it(sound_workspace: SoundWorkspace) -> None:
    sound_workspace.state.database.unlink()
    sound_workspace.run_checks()
    assert not sound_workspace.state.database.exists()


def test_a_key_that_a_rotation_left_behind_is_a_warning(sound_workspace: SoundWorkspace) -> None:
    old = key_file(sound_workspace.state)
    kept = old.read_bytes()
    rotate_key(sound_workspace.state.keys, "kernel", system_clock)
    assert sound_workspace.run_checks()["keyring"].status == "ok"
    old.write_bytes(kept)
    old.chmod(0o600)
    check = sound_workspace.run_checks()["keyring"]
    assert check.status == "warn"
    assert check.next_step == f"An interrupted rotation or another program created it. Remove it: rm {old}"


def test_a_database_out_of_wal_is_a_warning(sound_workspace: SoundWorkspace) -> None:
    change(sound_workspace, "PRAGMA journal_mode=DELETE")
    check = sound_workspace.run_checks()["store"]
    assert (check.status, "journal mode delete" in check.found) == ("warn", True)


def test_a_folder_where_others_could_exchange_the_state_is_a_warning(sound_workspace: SoundWorkspace) -> None:
    home = sound_workspace.state.path.parent
    home.chmod(0o777)
    check = sound_workspace.run_checks()["state directory"]
    assert (check.status, f"chmod go-w {home}" in check.next_step) == ("warn", True)
    home.chmod(0o1777)
    assert sound_workspace.run_checks()["state directory"].status == "ok"


def test_state_that_overlaps_the_workspace_fails(sound_workspace: SoundWorkspace) -> None:
    environ = {**sound_workspace.environ, "REMIT_STATE": str(sound_workspace.root / "inside")}
    (check,) = examine_workspace(sound_workspace.root, environ, system_clock)
    assert (check.name, check.status) == ("state directory", "fail")
    assert check.next_step == "Set REMIT_STATE to a folder outside of every workspace."


@pytest.mark.parametrize(
    "behind, status", [(timedelta(0), "ok"), (timedelta(milliseconds=900), "ok"), (timedelta(seconds=2), "fail")]
)
def test_a_clock_behind_the_newest_entry_fails_beyond_a_moment(behind: timedelta, status: str) -> None:
    chain = ChainClock("default", NOW + behind, behind, None)
    assert workspace.check_ledger_clock([chain], NOW).status == status


def test_an_empty_ledger_is_behind_nothing() -> None:
    assert workspace.check_ledger_clock([], NOW).status == "ok"
