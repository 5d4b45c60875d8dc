"""What `remit ledger` says to people: the truth about tenants, anchors and bundles, at any width of the terminal."""

import contextlib
import json
import os
import sqlite3
from pathlib import Path

import pytest

from remit.identity.person import person_at_terminal
from remit.ledger.entry import NewEntry
from remit.workspace.workspace import Workspace
from tests.cli.conftest import Remit
from tests.cli.test_commands import leased, write_manifest


def test_an_unknown_tenant_is_refused(remit: Remit) -> None:
    remit("init")
    ran = remit("ledger", "verify", "--tenant", "nosuch")
    assert ran.code == 2
    assert "'nosuch' has no entries" in ran.err
    assert remit("ledger", "verify", "--tenant", "default").code == 0


def test_a_tenant_that_only_an_anchor_remembers_is_truncated_not_unknown(remit: Remit, tmp_path: Path) -> None:
    remit("init")
    environ = {**os.environ, "REMIT_STATE": str(tmp_path / "state")}
    with Workspace.open(tmp_path / "project", environ=environ) as workspace:
        workspace.ledger.append(NewEntry("acme", "test.note", "c-1", {}))
        database = workspace.state.database
    assert remit("ledger", "verify", "--tenant", "acme").code == 0
    with contextlib.closing(sqlite3.connect(database)) as attacker:
        for table in ("ledger_entries", "ledger_heads"):
            attacker.execute(f"DROP TRIGGER {table}_no_delete")
            attacker.execute(f"DELETE FROM {table} WHERE tenant_id = 'acme'")
        attacker.commit()
    ran = remit("ledger", "verify", "--tenant", "acme", "--json")
    assert ran.code == 1
    assert "truncated" in {finding["fault"] for finding in ran.document["findings"]}


def test_a_missing_anchor_is_reported_because_a_cut_off_end_would_go_unnoticed(remit: Remit, tmp_path: Path) -> None:
    remit("init")
    assert remit("ledger", "verify").out == "holds: 1 entry, 1 signed head, 1 tenant\n"
    for anchor in (tmp_path / "state").rglob("*.anchor"):
        anchor.unlink()
    blind = remit("ledger", "verify")
    assert blind.code == 0
    assert blind.out.splitlines()[1] == "note: no anchor: missing entries at the end of a chain cannot be detected"


def test_an_export_tells_how_many_payloads_it_discloses(remit: Remit, tmp_path: Path) -> None:
    leased(remit, tmp_path)
    whole = remit("ledger", "export", "-o", "all.jsonl")
    assert whole.out.startswith("Wrote 2 entries, all with payload, to all.jsonl\n")
    write_manifest(tmp_path, task_id="t-2")
    remit("task", "lease", "task.json", "-o", "lease.json")
    part = remit("ledger", "export", "-o", "part.jsonl", "--correlation", "t-1")
    assert part.out.startswith("Wrote 2 entries, 1 with payload, to part.jsonl\n")
    document = remit("ledger", "export", "-o", "part.jsonl", "--correlation", "t-1", "--json").document
    assert (document["entries"], document["disclosed"]) == (2, 1)
    entries = [json.loads(line) for line in (tmp_path / "project/part.jsonl").read_text().splitlines()][1:-1]
    assert [entry["payload"] is None for entry in entries] == [False, True]
    assert entries[1]["correlation_id"] == "t-2"


def test_a_bundle_without_its_last_line_is_truncated_and_no_database_is_mentioned(remit: Remit, tmp_path: Path) -> None:
    leased(remit, tmp_path)
    remit("ledger", "export", "-o", "bundle.jsonl")
    bundle = tmp_path / "project" / "bundle.jsonl"
    bundle.write_text("".join(bundle.read_text().splitlines(keepends=True)[:-1]))
    ran = remit("ledger", "verify", "bundle.jsonl")
    assert ran.code == 1
    assert "truncated" in ran.out
    assert "no closing line" in ran.out
    assert "database" not in ran.out


def test_a_bundle_checked_with_another_role_of_key_asks_whether_it_is_the_right_one(
    remit: Remit, tmp_path: Path
) -> None:
    remit("init")
    remit("ledger", "export", "-o", "bundle.jsonl")
    (tmp_path / "project" / "kernel.pem").write_text(remit("keys", "export", "kernel").out)
    ran = remit("ledger", "verify", "bundle.jsonl", "--public-key", "kernel.pem", COLUMNS="300")
    assert ran.code == 1
    assert "is this the audit key of that workspace?" in ran.out
    assert "remit keys export audit" in ran.out
    assert "database" not in ran.out


@pytest.mark.parametrize(
    "arguments", [("bundle.jsonl", "--tenant", "default"), ("--public-key", "audit.pem")], ids=" ".join
)
def test_an_option_that_would_mean_nothing_is_refused(remit: Remit, arguments: tuple[str, ...]) -> None:
    remit("init")
    remit("ledger", "export", "-o", "bundle.jsonl")
    remit("keys", "export", "audit", "-o", "audit.pem")
    assert remit("ledger", "verify", *arguments).code == 2


def history(remit: Remit, folder: Path) -> None:
    leased(remit, folder)
    remit("task", "run", "task.json", "--lease", "lease.json")
    write_manifest(folder, task_id="t-2")
    remit("task", "run", "task.json", "--lease", "lease.json")
    remit("keys", "rotate", "protocol")


MEANINGS = (
    "keys of 4 roles",
    "NO_EFFECT, until 20",
    "NO_EFFECT, lease ",
    "SUCCESS",
    "signature_invalid: ",
    "protocol key",
    "protocol key, old ",
)


def test_entries_are_shown_with_what_they_mean(remit: Remit, tmp_path: Path) -> None:
    history(remit, tmp_path)
    lines = remit("ledger", "show", COLUMNS="240").out.splitlines()
    assert lines[0].split() == ["seq", "time", "kind", "actor", "correlation", "meaning"]
    for line, meaning in zip(lines[1:], MEANINGS, strict=False):
        assert meaning in line
    assert not any("{" in line for line in lines)


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_every_column_is_there_at_every_width_and_no_line_is_too_long(remit: Remit, tmp_path: Path, width: int) -> None:
    history(remit, tmp_path)
    shown = remit("ledger", "show", COLUMNS=str(width)).out
    assert max(map(len, shown.splitlines())) <= width
    for word in ("seq", "time", "kind", "correlation", "meaning", "workspace.created", "t-1", "SUCCESS", "roles"):
        assert word in shown, word


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_key_id_is_never_broken(remit: Remit, width: int) -> None:
    remit("init")
    remit("keys", "rotate", "audit")
    shown = remit("keys", "list", COLUMNS=str(width)).out
    for key in remit("keys", "list", "--json").document:
        assert key["key_id"] in shown
        assert key["state"] in shown


def test_for_another_program_each_row_is_one_line(remit: Remit) -> None:
    """COLUMNS is how a terminal speaks to a child: without it, and without a terminal, nothing is wrapped."""
    remit("init")
    lines = remit("keys", "list", COLUMNS="").out.splitlines()
    assert len(lines) == 5
    assert all(len(line.split()) == 4 for line in lines[1:])


def test_an_export_says_which_chains_are_not_in_it_and_the_record_names_who_sat_at_the_terminal(
    remit: Remit, tmp_path: Path
) -> None:
    leased(remit, tmp_path)
    assert "Other tenants" not in remit("ledger", "export", "-o", "all.jsonl").err
    environ = {**os.environ, "REMIT_STATE": str(tmp_path / "state")}
    with Workspace.open(tmp_path / "project", environ=environ) as workspace:
        workspace.ledger.append(NewEntry("acme", "test.note", "x", {}))
        with workspace.store.reading() as connection:
            named = connection.one("SELECT actor FROM ledger_entries WHERE kind = 'lease.issued'", ())
    assert named == (person_at_terminal({}).id,)
    told = remit("ledger", "export", "-o", "all.jsonl")
    assert "This is the chain of default only. Other tenants have entries too: acme (1); --tenant acme\n" in told.err
    assert remit("ledger", "export", "-o", "all.jsonl", "--json").document["not_in_it"] == {"acme": 1}
    assert (
        "Other tenants have entries too: default (2)"
        in remit("ledger", "export", "-o", "all.jsonl", "--tenant", "acme").err
    )
