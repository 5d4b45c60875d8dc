"""Evidence bundles: what an auditor receives, and can check with nothing but a public key."""

import io
import json
from typing import Any

import pytest

from remit.core.errors import Reason, RefusedError
from remit.crypto.keyring import parse_public_pem, render_public_pem, rotate_key
from remit.crypto.signing import Keyring
from remit.ledger.bundle import newest_head, verify_bundle, write_bundle
from remit.ledger.entry import NewEntry
from remit.ledger.findings import RecordFault
from tests.support.store_fixtures import World


def export(world: World, tenant_id: str = "acme", correlation_id: str | None = None) -> bytes:
    out = io.BytesIO()
    write_bundle(world.store, out, tenant_id, world.clock, correlation_id=correlation_id)
    return out.getvalue()


def auditor(world: World) -> Keyring:
    """Somebody far away, who was handed the audit keys in PEM form and has nothing else."""
    pem = "".join(render_public_pem(key) for key in world.keyring if key.role == "audit")
    return parse_public_pem(pem.encode(), "audit", source="audit.pem")


def lines(bundle: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in bundle.splitlines()]


@pytest.fixture
def history(world: World) -> World:
    """Nine entries of three correlations, corr-1, corr-2, corr-0 in turn, each with a secret of its own."""
    for number in range(1, 10):
        world.ledger.append(
            NewEntry(
                "acme",
                "test.event",
                f"corr-{number % 3}",
                {"secret": f"payload of corr-{number % 3}, number {number}"},
                task_id=f"task-{number % 3}",
                capability_id="FILE_MOVE" if number % 3 else "FILE_COPY",
            )
        )
    world.append("zeta", 2)
    return world


def test_a_full_bundle_is_checked_with_the_public_key_alone(history: World) -> None:
    bundle = export(history)
    verdict = verify_bundle(io.BytesIO(bundle), auditor(history), source="bundle")
    assert verdict.findings == []
    assert (verdict.entries, verdict.heads, verdict.tenants) == (9, 1, 1)
    header, *entries, trailer = lines(bundle)
    assert (header["tenant_id"], header["first_seq"], header["correlation_id"]) == ("acme", 1, None)
    assert [entry["seq"] for entry in entries] == list(range(1, 10))
    assert (trailer["entries"], trailer["head"]["seq"]) == (9, 9)


def test_a_bundle_about_one_correlation_tells_no_other_secrets(history: World) -> None:
    bundle = export(history, correlation_id="corr-2")
    assert verify_bundle(io.BytesIO(bundle), auditor(history), source="bundle").findings == []
    header, *entries, _ = lines(bundle)
    assert header["first_seq"] == 2
    shown = [entry["payload"]["secret"] for entry in entries if entry["payload"] is not None]
    assert shown == [f"payload of corr-2, number {number}" for number in (2, 5, 8)]
    assert b"payload of corr-0" not in bundle
    assert b"payload of corr-1" not in bundle
    assert [entry["seq"] for entry in entries] == list(range(2, 10)), "the chain itself is whole"


def test_old_bundles_still_verify_after_rotation_and_new_ones_need_the_new_key(history: World) -> None:
    before, old_auditor = export(history), auditor(history)
    rotate_key(history.keys, "audit", history.clock)
    history.append("acme", 1)
    after = export(history)
    assert verify_bundle(io.BytesIO(before), old_auditor, source="bundle").holds
    assert verify_bundle(io.BytesIO(before), auditor(history), source="bundle").holds
    assert verify_bundle(io.BytesIO(after), auditor(history), source="bundle").holds
    found = verify_bundle(io.BytesIO(after), old_auditor, source="bundle").findings
    assert [(one.fault, one.seq) for one in found] == [(RecordFault.HEAD_UNKNOWN_KEY, 10)]


def test_a_key_of_another_role_does_not_verify_a_bundle(history: World) -> None:
    pem = "".join(render_public_pem(key) for key in history.keyring if key.role == "executor")
    keyring = parse_public_pem(pem.encode(), "audit", source="audit.pem")
    found = verify_bundle(io.BytesIO(export(history)), keyring, source="bundle").findings
    assert [one.fault for one in found] == [RecordFault.HEAD_UNKNOWN_KEY]
    assert "signed by another key" in found[0].what
    assert "is this the audit key of that workspace?" in found[0].what


def test_a_bundle_tells_how_many_payloads_it_discloses(history: World) -> None:
    whole = write_bundle(history.store, io.BytesIO(), "acme", history.clock)
    assert (whole.entries, whole.disclosed) == (9, 9)
    part = write_bundle(history.store, io.BytesIO(), "acme", history.clock, correlation_id="corr-2")
    assert (part.entries, part.disclosed, part.head) == (8, 3, whole.head)


@pytest.mark.parametrize("tenant_id,correlation_id", [("nobody", None), ("acme", "corr-9")])
def test_an_export_without_entries_is_refused_with_a_next_step(
    history: World, tenant_id: str, correlation_id: str | None
) -> None:
    with pytest.raises(RefusedError) as caught:
        export(history, tenant_id, correlation_id)
    assert caught.value.reason is Reason.STATE_MISSING
    assert "remit ledger show" in caught.value.next_step


def test_a_payload_spoilt_in_the_store_is_not_exported_silently(history: World) -> None:
    history.attacker.tamper("UPDATE ledger_entries SET payload = '{\"cut' WHERE tenant_id = 'acme' AND seq = 4")
    with pytest.raises(RefusedError, match="not what Remit wrote") as caught:
        export(history)
    assert "entry 4" in caught.value.where
    assert "remit ledger verify" in caught.value.next_step


def test_an_entry_edited_in_the_store_is_found_by_the_auditor(history: World) -> None:
    history.attacker.tamper("UPDATE ledger_entries SET actor = 'mallory' WHERE tenant_id = 'acme' AND seq = 4")
    found = verify_bundle(io.BytesIO(export(history)), auditor(history), source="bundle").findings
    assert [(one.fault, one.seq) for one in found] == [(RecordFault.EDITED, 4)]


def test_a_head_kept_by_the_auditor_tells_that_a_bundle_is_an_old_one(history: World) -> None:
    old = export(history)
    history.append("acme", 2)
    with history.store.reading() as connection:
        kept = newest_head(connection, "acme")
    check = auditor(history)
    assert verify_bundle(io.BytesIO(old), check, source="bundle").holds
    found = verify_bundle(io.BytesIO(old), check, source="bundle", known_heads=(kept,)).findings
    assert [(one.fault, one.seq) for one in found] == [(RecordFault.TRUNCATED, 10)]
    assert verify_bundle(io.BytesIO(export(history)), check, source="bundle", known_heads=(kept,)).anchored == 1


@pytest.mark.req("EI-14")
def test_each_entry_of_an_effect_names_its_task_and_its_capability(history: World) -> None:
    """In the store by the index on tasks, and in the bundle that leaves the house."""
    with history.store.reading() as connection:
        query = "SELECT seq, capability_id FROM ledger_entries WHERE tenant_id = ? AND task_id = ? ORDER BY seq"
        assert list(connection.rows(query, ("acme", "task-1"))) == [
            (1, "FILE_MOVE"),
            (4, "FILE_MOVE"),
            (7, "FILE_MOVE"),
        ]
        assert list(connection.rows(query, ("acme", "task-0"))) == [
            (3, "FILE_COPY"),
            (6, "FILE_COPY"),
            (9, "FILE_COPY"),
        ]
    _, *entries, _ = lines(export(history))
    traced = [
        entry["seq"] for entry in entries if (entry["task_id"], entry["capability_id"]) == ("task-1", "FILE_MOVE")
    ]
    assert traced == [1, 4, 7]


@pytest.mark.req("EI-14")
@pytest.mark.parametrize("name", ["task_id", "capability_id"])
def test_the_task_and_capability_behind_an_entry_cannot_be_exchanged(history: World, name: str) -> None:
    entry = lines(export(history))[4]
    changed = export(history).replace(
        json.dumps(entry, separators=(",", ":"), sort_keys=True).encode(),
        json.dumps({**entry, name: "OTHER"}, separators=(",", ":"), sort_keys=True).encode(),
    )
    found = verify_bundle(io.BytesIO(changed), auditor(history), source="bundle").findings
    assert [(one.fault, one.seq) for one in found] == [(RecordFault.EDITED, 4)]
