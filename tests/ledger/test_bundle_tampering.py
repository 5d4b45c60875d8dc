"""Each way to tamper with a bundle on its way to the auditor is found and named, or the file is refused outright."""

import io
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from remit.contracts.ledger import LedgerEntry
from remit.core.canonical import digest
from remit.core.errors import Reason, RefusedError
from remit.crypto.signing import Keyring
from remit.ledger.bundle import MAX_LINE, verify_bundle
from remit.ledger.entry import GENESIS, entry_hash
from remit.ledger.findings import RecordFault
from tests.ledger.test_bundle import auditor, export
from tests.support.patience import SOON
from tests.support.store_fixtures import World

Lines = list[dict[str, Any]]


@pytest.fixture
def dialect() -> str:
    """A file is a file, whichever database it came from."""
    return "sqlite"


@pytest.fixture
def bundle(world: World) -> Lines:
    """Header, nine entries, trailer."""
    world.append("acme", 9)
    world.append("zeta", 9)
    return parsed(export(world))


def parsed(raw: bytes) -> Lines:
    return [json.loads(line) for line in raw.splitlines()]


def rendered(lines: Lines) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def found(lines: Lines, keyring: Keyring) -> set[tuple[RecordFault, int | None]]:
    verdict = verify_bundle(io.BytesIO(rendered(lines)), keyring, source="bundle")
    return {(one.fault, one.seq) for one in verdict.findings}


EDITS: dict[str, Any] = {
    "entry_id": "other",
    "created_at": "2026-01-01T00:00:00.008000Z",
    "kind": "test.other",
    "correlation_id": "other",
    "task_id": None,
    "capability_id": "OTHER",
    "actor": "mallory",
    "payload": {"number": 40},
    "payload_digest": GENESIS,
    "prev_hash": GENESIS,
    "hash": GENESIS,
}


def test_every_field_of_an_entry_has_an_edit_here() -> None:
    assert {*EDITS, "tenant_id", "seq"} == set(LedgerEntry.model_fields)


@pytest.mark.parametrize("field", EDITS)
def test_an_edited_entry_is_named(world: World, bundle: Lines, field: str) -> None:
    bundle[4][field] = EDITS[field]
    assert (RecordFault.EDITED, 4) in found(bundle, auditor(world))


def test_an_edited_payload_with_its_digest_is_named(world: World, bundle: Lines) -> None:
    bundle[4].update(payload={"number": 40}, payload_digest=digest({"number": 40}))
    assert found(bundle, auditor(world)) == {(RecordFault.EDITED, 4)}


def test_an_edited_entry_with_its_hashes_is_named(world: World, bundle: Lines) -> None:
    entry = bundle[4]
    entry.update(payload={"number": 40}, payload_digest=digest({"number": 40}))
    covered = {name: value for name, value in entry.items() if name not in {"hash", "payload"}}
    entry["hash"] = entry_hash(covered)
    assert found(bundle, auditor(world)) == {(RecordFault.BROKEN_LINK, 5)}


def test_the_last_entry_rewritten_with_its_hash_contradicts_the_head(world: World, bundle: Lines) -> None:
    entry = bundle[9]
    entry["actor"] = "mallory"
    entry["hash"] = entry_hash({name: value for name, value in entry.items() if name not in {"hash", "payload"}})
    assert found(bundle, auditor(world)) == {(RecordFault.FORKED, 9)}


def drop_line(lines: Lines, _: Lines) -> None:
    del lines[4]


def drop_first_entries(lines: Lines, _: Lines) -> None:
    del lines[1:4]
    lines[-1]["entries"] = 6


def drop_first_entries_and_say_so(lines: Lines, _: Lines) -> None:
    drop_first_entries(lines, lines)
    lines[0]["first_seq"] = 4


def swap_lines(lines: Lines, _: Lines) -> None:
    lines[4], lines[5] = lines[5], lines[4]


def repeat_line(lines: Lines, _: Lines) -> None:
    lines.insert(5, dict(lines[4]))


def cut_tail(lines: Lines, _: Lines) -> None:
    del lines[7:10]


def cut_tail_and_say_so(lines: Lines, _: Lines) -> None:
    cut_tail(lines, lines)
    lines[-1]["entries"] = 6


def foreign_head(lines: Lines, other: Lines) -> None:
    lines[-1]["head"] = other[-1]["head"]


def foreign_line(lines: Lines, other: Lines) -> None:
    lines[4] = other[4]


def other_tenant(lines: Lines, _: Lines) -> None:
    lines[0]["tenant_id"] = "zeta"


def take_a_payload_out(lines: Lines, _: Lines) -> None:
    lines[4]["payload"] = None


def miscount(lines: Lines, _: Lines) -> None:
    lines[-1]["entries"] = 8


def shorten_the_head(lines: Lines, _: Lines) -> None:
    lines[-1]["head"]["seq"] = 8


BROKEN = {(RecordFault.BROKEN_LINK, 4), (RecordFault.BROKEN_LINK, 5)}


def sign_later(lines: Lines, _: Lines) -> None:
    lines[-1]["head"]["signed_at"] = "2026-02-01T00:00:00Z"


@pytest.mark.parametrize(
    "tamper,expected",
    [
        (drop_line, {(RecordFault.MISSING, 4), (RecordFault.MISSING, 10)}),
        (drop_first_entries, {(RecordFault.MISSING, 1)}),
        (drop_first_entries_and_say_so, {(RecordFault.MISSING, 1)}),
        (swap_lines, {(RecordFault.MISSING, 4), (RecordFault.FORKED, 4)}),
        (repeat_line, {(RecordFault.FORKED, 4), (RecordFault.MISSING, 10)}),
        (cut_tail, {(RecordFault.TRUNCATED, 7), (RecordFault.MISSING, 7)}),
        (cut_tail_and_say_so, {(RecordFault.TRUNCATED, 7)}),
        (foreign_head, {(RecordFault.FOREIGN, 9), (RecordFault.FORKED, 9)}),
        (foreign_line, {*BROKEN, (RecordFault.FOREIGN, 4), (RecordFault.CLOCK_REVERSED, 5)}),
        (other_tenant, {(RecordFault.FOREIGN, seq) for seq in range(1, 10)}),
        (take_a_payload_out, {(RecordFault.WITHHELD, 4)}),
        (miscount, {(RecordFault.MISSING, 10)}),
        (shorten_the_head, {(RecordFault.HEAD_FORGED, 8), (RecordFault.UNSIGNED_TAIL, 9)}),
        (sign_later, {(RecordFault.HEAD_FORGED, 9)}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_tampering_with_lines_is_named(
    world: World, bundle: Lines, tamper: Callable[[Lines, Lines], None], expected: set[tuple[RecordFault, int | None]]
) -> None:
    assert found(bundle, auditor(world)) == set()
    tamper(bundle, parsed(export(world, "zeta")))
    assert found(bundle, auditor(world)) == expected


def test_an_old_head_under_newer_entries_is_named(world: World, bundle: Lines) -> None:
    world.append("acme", 2)
    newer = parsed(export(world))
    newer[-1]["head"] = bundle[-1]["head"]
    assert found(newer, auditor(world)) == {(RecordFault.UNSIGNED_TAIL, 10)}


def test_a_bundle_about_one_correlation_cannot_be_passed_off_as_one_about_another(world: World, bundle: Lines) -> None:
    lines = parsed(export(world, correlation_id="corr-2"))
    assert found(lines, auditor(world)) == set()
    lines[0]["correlation_id"] = "corr-0"
    assert found(lines, auditor(world)) == {
        (RecordFault.MISSING, 2),
        *((RecordFault.WITHHELD, seq) for seq in (3, 6, 9)),
    }


def test_a_payload_taken_out_of_its_own_correlation_is_named(world: World, bundle: Lines) -> None:
    lines = parsed(export(world, correlation_id="corr-2"))
    lines[4]["payload"] = None
    assert found(lines, auditor(world)) == {(RecordFault.WITHHELD, 5)}


def test_a_payload_for_an_entry_of_another_correlation_must_fit_its_digest(world: World, bundle: Lines) -> None:
    lines = parsed(export(world, correlation_id="corr-2"))
    lines[2]["payload"] = {"invented": True}
    assert found(lines, auditor(world)) == {(RecordFault.EDITED, 3)}


WHOLE = "this is not a complete evidence bundle"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: b"",
        lambda _: b"\n",
        lambda _: b"\x7fELF\x02\x01\x01\0" + bytes(range(256)) * 8,
        lambda raw: b"\xff\xfe" + raw,
        lambda raw: raw + b"garbage\n",
        lambda raw: raw + b"\n",
        lambda raw: raw + raw,
        lambda raw: raw[raw.find(b"\n") + 1 :],
        lambda raw: raw.replace(b'"version":1', b'"version":2'),
        lambda raw: raw.replace(b'"seq":4', b'"seq":-4', 1),
        lambda raw: raw.replace(b'"seq":4', b'"seq":4,"seq":4', 1),
        lambda raw: raw.replace(b'"seq":4', b'"seq":4,"note":"hi"', 1),
        lambda raw: raw.replace(b'"number":4', b'"number":1e400', 1),
        lambda raw: raw.replace(b"\n", b"", 3),
        lambda _: b'{"bundle":' + b"[" * 1_000_000,
    ],
)
def test_a_file_that_is_no_whole_bundle_is_refused(
    world: World, bundle: Lines, spoil: Callable[[bytes], bytes]
) -> None:
    with pytest.raises(RefusedError, match=WHOLE) as caught:
        verify_bundle(io.BytesIO(spoil(export(world))), auditor(world), source="evidence.jsonl")
    assert caught.value.reason is Reason.EVIDENCE_INVALID
    assert "evidence.jsonl" in caught.value.where
    assert "line" in caught.value.where
    assert "remit ledger export" in caught.value.next_step


@pytest.mark.parametrize(
    "cut, kept",
    [
        (lambda raw: raw[: raw.rstrip().rfind(b"\n") + 1], 9),
        (lambda raw: raw[: raw.rstrip().rfind(b"\n") + 20], 9),
        (lambda raw: b"".join(raw.splitlines(keepends=True)[:4]), 3),
        (lambda raw: b"".join(raw.splitlines(keepends=True)[:5])[:-30], 3),
        (lambda raw: raw[: raw.find(b"\n") + 1], 0),
    ],
    ids=["no closing line", "half a closing line", "after an entry", "amid an entry", "only the header"],
)
def test_a_bundle_whose_end_was_cut_off_is_named_truncated(
    world: World, bundle: Lines, cut: Callable[[bytes], bytes], kept: int
) -> None:
    verdict = verify_bundle(io.BytesIO(cut(export(world))), auditor(world), source="bundle")
    (only,) = verdict.findings
    assert (only.fault, only.seq, verdict.entries) == (RecordFault.TRUNCATED, kept + 1, kept)
    assert "no closing line" in only.what


def test_a_cut_off_bundle_is_still_searched_for_tampering(world: World, bundle: Lines) -> None:
    bundle[9]["actor"] = "mallory"
    assert found(bundle[:-1], auditor(world)) == {(RecordFault.EDITED, 9), (RecordFault.TRUNCATED, 10)}


def test_a_closing_line_without_its_line_end_is_whole(world: World, bundle: Lines) -> None:
    assert verify_bundle(io.BytesIO(export(world).rstrip(b"\n")), auditor(world), source="bundle").holds


def test_an_endless_line_is_refused_before_it_costs_memory(world: World, bundle: Lines) -> None:
    class Endless(io.RawIOBase):
        """Ten gigabytes, were anybody to ask for them."""

        served = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            assert size is not None
            assert 0 < size <= MAX_LINE + 1
            self.served += size
            return b"x" * size

    endless = Endless()
    began = time.monotonic()
    with pytest.raises(RefusedError, match="longer than") as caught:
        verify_bundle(endless, auditor(world), source="bundle")  # type: ignore[arg-type]
    assert caught.value.reason is Reason.TOO_LARGE
    assert endless.served <= MAX_LINE + 1
    assert time.monotonic() - began < SOON


def test_a_line_of_ten_megabytes_amid_good_ones_is_refused(world: World, bundle: Lines) -> None:
    bundle[4]["payload"] = {"text": "x" * 10_000_000}
    with pytest.raises(RefusedError, match="longer than"):
        found(bundle, auditor(world))
