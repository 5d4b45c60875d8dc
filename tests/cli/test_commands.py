"""The commands as a person or a program uses them, in real processes."""

import json
import secrets
import sqlite3
import stat
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.cli.conftest import Remit

MANIFEST = {"task_id": "t-1", "capability_id": "NO_EFFECT", "inputs": {}, "constraints": {"reversible": True}}


def write_manifest(folder: Path, **changes: object) -> None:
    (folder / "project" / "task.json").write_text(json.dumps({**MANIFEST, **changes}))


def leased(remit: Remit, folder: Path, **changes: object) -> None:
    remit("init")
    write_manifest(folder, **changes)
    assert remit("task", "lease", "task.json", "-o", "lease.json").code == 0


def test_init_makes_a_private_state_directory_and_a_second_run_changes_nothing(remit: Remit, tmp_path: Path) -> None:
    first = remit("init", "--json")
    assert first.code == 0
    assert first.document["new"] is True
    state = Path(first.document["state"])
    assert state.is_relative_to(tmp_path / "state")
    for path in [state, *state.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    keys = {path: path.read_bytes() for path in (state / "keys").rglob("*") if path.is_file()}
    again = remit("init", "--json")
    assert again.document == {**first.document, "new": False}
    assert {path: path.read_bytes() for path in (state / "keys").rglob("*") if path.is_file()} == keys


def test_a_task_goes_from_lease_to_signed_result(remit: Remit, tmp_path: Path) -> None:
    leased(remit, tmp_path)
    ran = remit("task", "run", "task.json", "--lease", "lease.json")
    assert ran.code == 0
    assert ran.document["status"] == "SUCCESS"
    assert remit("ledger", "verify", "--json").document["holds"] is True


def test_a_lease_on_standard_output_can_be_piped(remit: Remit, tmp_path: Path) -> None:
    remit("init")
    lease = remit("task", "lease", "-", stdin=json.dumps(MANIFEST).encode())
    write_manifest(tmp_path)
    assert remit("task", "run", "task.json", "--lease", "-", stdin=lease.out.encode()).code == 0


@pytest.mark.parametrize(
    "changes, code",
    [({"capability_id": "NOBODY_CAN"}, "UNSUPPORTED_CAPABILITY"), ({"task_id": "t-2"}, "INVALID_LEASE")],
)
def test_a_refused_task_exits_2_with_its_code(remit: Remit, tmp_path: Path, changes: dict[str, str], code: str) -> None:
    leased(remit, tmp_path, **(changes if "capability_id" in changes else {}))
    write_manifest(tmp_path, **changes)
    ran = remit("task", "run", "task.json", "--lease", "lease.json")
    assert ran.code == 2
    assert ran.document["error"]["error_code"] == code


def test_a_dry_run_leaves_no_trace(remit: Remit, tmp_path: Path) -> None:
    leased(remit, tmp_path)
    before = remit("ledger", "show", "--json").out
    ran = remit("task", "run", "task.json", "--lease", "lease.json", "--dry-run")
    assert (ran.code, ran.out) == (0, "Would run: NO_EFFECT as task t-1\n")
    assert remit("ledger", "show", "--json").out == before


def test_tampering_is_found_and_named_with_exit_1(remit: Remit, tmp_path: Path) -> None:
    state = Path(remit("init", "--json").document["state"])
    database = sqlite3.connect(state / "ledger.sqlite3")
    database.execute("DROP TRIGGER ledger_entries_no_update")
    database.execute("UPDATE ledger_entries SET actor = 'somebody'")
    database.commit()
    database.close()
    shown = remit("ledger", "verify")
    assert shown.code == 1
    assert "edited" in shown.out
    faults = {finding["fault"] for finding in remit("ledger", "verify", "--json").document["findings"]}
    assert faults == {"edited", "guard_missing"}


def test_an_auditor_checks_a_bundle_with_the_public_key_alone(remit: Remit, tmp_path: Path) -> None:
    leased(remit, tmp_path)
    assert remit("ledger", "export", "-o", "bundle.jsonl").code == 0
    assert remit("keys", "export", "audit", "-o", "audit.pem").code == 0
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("bundle.jsonl", "audit.pem"):
        (tmp_path / "project" / name).rename(elsewhere / name)
    nowhere = {"REMIT_STATE": str(tmp_path / "no-state")}
    good = remit("ledger", "verify", "bundle.jsonl", "--public-key", "audit.pem", cwd=elsewhere, **nowhere)
    assert good.code == 0, good
    unpinned = remit("ledger", "verify", "bundle.jsonl", cwd=elsewhere, **nowhere)
    assert unpinned.code == 2
    assert "--public-key" in unpinned.err
    bundle = elsewhere / "bundle.jsonl"
    bundle.write_bytes(bundle.read_bytes().replace(b"lease.issued", b"lease.denied", 1))
    bad = remit("ledger", "verify", "bundle.jsonl", "--public-key", "audit.pem", "--json", cwd=elsewhere, **nowhere)
    assert bad.code == 1
    assert bad.document["findings"][0]["fault"] == "edited"


def test_a_kept_head_proves_what_was_cut_off(remit: Remit, tmp_path: Path) -> None:
    leased(remit, tmp_path)
    assert remit("ledger", "head", "-o", "head.json").code == 0
    assert remit("ledger", "verify", "--head", "head.json").code == 0
    state = next((tmp_path / "state").iterdir())
    database = sqlite3.connect(state / "ledger.sqlite3")
    for trigger in ("ledger_entries_no_delete", "ledger_heads_no_delete"):
        (text,) = database.execute("SELECT sql FROM sqlite_master WHERE name = ?", (trigger,)).fetchone()
        database.execute(f"DROP TRIGGER {trigger}")
        database.execute(f"DELETE FROM {trigger.removesuffix('_no_delete')} WHERE seq = 2")
        database.execute(text)
    database.commit()
    database.close()
    for anchor in (state / "anchors").iterdir():
        anchor.unlink()
    assert remit("ledger", "verify").code == 0  # whoever holds both database and state can hide it ...
    found = remit("ledger", "verify", "--head", "head.json", "--json")
    assert found.code == 1  # ... but not from a head kept elsewhere
    assert [finding["fault"] for finding in found.document["findings"]] == ["truncated"]


def test_rotating_the_audit_key_keeps_the_ledger_whole(remit: Remit) -> None:
    remit("init")
    for role in ("audit", "kernel", "executor", "protocol", "audit"):
        assert remit("keys", "rotate", role).code == 0
    assert remit("keys", "rotate", "audit", "--revoke").code == 0
    assert remit("ledger", "verify", "--json").document["holds"] is True
    states = [key["state"].split()[0] for key in remit("keys", "list", "--json").document if key["role"] == "audit"]
    assert sorted(states) == ["active", "retired", "retired", "revoked"]


def test_rebuild_and_migrate_say_that_there_is_nothing_to_do(remit: Remit) -> None:
    remit("init")
    assert remit("ledger", "rebuild", "--json").document == {"rows": 0, "drift": []}
    assert remit("migrate").out == "Already up to date.\n"


def test_show_takes_nothing_in_an_entry_for_markup(remit: Remit, tmp_path: Path) -> None:
    leased(remit, tmp_path, task_id="[red]t[/red]")
    shown = remit("ledger", "show")
    assert "\x1b" not in shown.out
    assert "[red]t[/red]" in shown.out


def test_the_demo_keeps_its_promises_and_leaves_nothing_behind(remit: Remit, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    ran = remit("demo", "--json", TMPDIR=str(tmp_path / "tmp"))
    assert ran.code == 0
    assert len(ran.document["steps"]) >= 9
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_granted_role_can_work_and_cannot_rewrite_history(remit: Remit, tmp_path: Path, postgres_url: str) -> None:
    role = f"remit_service_{secrets.token_hex(4)}"
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN".encode())
        try:
            assert remit("init", "--database-variable", "URL", URL=postgres_url).code == 0
            assert remit("migrate", "--grant-to", role, URL=postgres_url).code == 0
            service = make_conninfo(postgres_url, user=role)
            write_manifest(tmp_path)
            assert remit("task", "lease", "task.json", "-o", "lease.json", URL=service).code == 0
            assert remit("task", "run", "task.json", "--lease", "lease.json", URL=service).code == 0
            assert remit("ledger", "verify", URL=service).code == 0
            assert remit("migrate", "--grant-to", role, URL=service).code != 0
            schema = owner.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'remit_%'").fetchone()
            assert schema is not None
            with psycopg.connect(service) as session, pytest.raises(psycopg.errors.InsufficientPrivilege):
                session.execute(f'UPDATE "{schema[0]}".ledger_entries SET actor = NULL'.encode())
        finally:
            owner.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())
