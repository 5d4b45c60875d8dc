"""What is noted before a COMMIT is read back as it was, masked or not; and papers from before keep their digests."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.contracts.plans.rollback import RollbackManifest
from remit.contracts.plans.sql_report import SqlTold
from remit.core.canonical import digest
from remit.core.errors import EnvironmentFailureError
from remit.effects.plans.steps import note_undo, note_wave
from remit.masking import mask_json
from remit.plans.model.remote_part import Commit, RowBackup, note_commit, read_commit

ROWS = RowBackup((("public.orders", 1, 2, 3),), "agent_outputs/reports/r/backups/rows.bak", "sha256:" + "ab" * 32, 7)


@pytest.mark.req("PX-28")
@given(st.integers(10**18, 10**19 - 1), st.integers(1, 2**64 - 1))
def test_a_note_survives_the_mask_of_the_ledger(system: int, xid: int) -> None:
    """The number of one server in ten looks like that of a card."""
    commit = Commit("shop", {"xid": str(xid), "backend": 4_321, "database": f"{system}/16384"}, ROWS)
    recorded = json.loads(json.dumps(mask_json({"note": note_commit(commit)})))
    assert read_commit([recorded["note"]]) == commit


def test_a_commit_noted_before_the_run_began_again_is_ignored() -> None:
    first, second = (Commit("shop", {"xid": number, "backend": 1, "database": "1/1"}) for number in ("5", "6"))
    assert read_commit([]) is None
    assert read_commit([note_wave(1, []), note_commit(first), note_undo("ROLLED_BACK", ())]) == first
    assert read_commit([note_commit(first), note_wave(0, [])]) is None
    assert read_commit([note_commit(first), note_wave(0, []), note_commit(second)]) == second


def test_a_note_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(EnvironmentFailureError, match="cannot be read"):
        read_commit([{"commit": ["shop", ["zz"], None]}])


def test_documents_from_before_there_were_servers_keep_their_digests() -> None:
    manifest: dict[str, Any] = {
        "manifest_id": "00000000-0000-4000-8000-000000000001",
        "plan_id": "p",
        "created_at": "2026-11-15T00:00:00Z",
        "expires_at": None,
        "executed_at": None,
        "status": "ACTIVE",
        "checkpoints": [],
        "rollback_order": [],
        "auto_rollback_script": None,
        "notes": "",
    }
    told: dict[str, Any] = {
        "action_id": "a",
        "connection": "shop",
        "database": "x.duckdb",
        "changes_database": True,
        "statements": [],
        "left_out": 0,
        "result_rows": 0,
        "columns": [],
        "saved_to": None,
        "query_file": None,
    }
    assert RollbackManifest.from_tree(manifest).digest() == digest(manifest)
    assert SqlTold.from_tree(told).digest() == digest(told)
