"""Rotation: an old key vouches for what it signed before, never for anything later; a revoked one for nothing."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.core.ids import Clock, render_time, system_clock
from remit.crypto.keyring import MAX_KEYS, create_keys, load_keyring, load_signer, revoke_key, rotate_key
from remit.crypto.signing import ROLES, Keyring, PublicKey, Role

BODY = b"{}"
START = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)


def ticking() -> Clock:
    """One second later each time it is asked."""
    times: Iterator[datetime] = (START + timedelta(seconds=second) for second in range(100_000))
    return lambda: next(times)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    create_keys(tmp_path / "keys", lambda: START - timedelta(days=1))
    return tmp_path / "keys"


def refusal(ring: Keyring, key_id: str, signature: str, signed_at: str) -> Reason | None:
    try:
        ring.verify("lease", key_id, BODY, signature, signed_at=signed_at)
    except RefusedError as refused:
        return refused.reason
    return None


def test_a_retired_key_verifies_what_it_signed_before_and_nothing_later(keys: Path) -> None:
    before = load_signer(keys, "kernel")
    signature = before.sign("lease", BODY)
    old, new = rotate_key(keys, "kernel", ticking())
    assert old.retired_at == "2026-01-31T09:30:01.000000Z"
    ring = load_keyring(keys)
    assert refusal(ring, old.key_id, signature, "2026-01-31T09:30:00.999999Z") is None
    assert refusal(ring, old.key_id, signature, old.retired_at) is None
    assert refusal(ring, old.key_id, signature, "2026-01-31T09:30:01.000001Z") is Reason.KEY_RETIRED
    assert refusal(ring, old.key_id, signature, "2026-01-31T09:30:02Z") is Reason.KEY_RETIRED
    assert load_signer(keys, "kernel").key_id == new.key_id != old.key_id


def test_a_retired_key_does_not_verify_a_signature_whose_time_cannot_be_read(keys: Path) -> None:
    signature = load_signer(keys, "kernel").sign("lease", BODY)
    old, _ = rotate_key(keys, "kernel", ticking())
    for nonsense in ("", "yesterday", "0", "2026-01-31T09:00:00+09:00Z"):
        assert refusal(load_keyring(keys), old.key_id, signature, nonsense) is Reason.KEY_RETIRED


def test_a_revoked_key_verifies_nothing(keys: Path) -> None:
    signature = load_signer(keys, "kernel").sign("lease", BODY)
    old, _ = rotate_key(keys, "kernel", ticking(), revoke=True)
    assert old.revoked_at is not None
    for signed_at in ("1970-01-01T00:00:00Z", render_time(START), old.revoked_at):
        assert refusal(load_keyring(keys), old.key_id, signature, signed_at) is Reason.REVOKED


def test_the_old_private_key_is_destroyed(keys: Path) -> None:
    (old_file,) = (keys / "kernel").iterdir()
    _, new = rotate_key(keys, "kernel", ticking())
    assert not old_file.exists()
    assert [file.name for file in (keys / "kernel").iterdir()] == [f"{new.key_id}.pem"]


@pytest.mark.parametrize("role", ROLES)
def test_rotating_one_role_leaves_the_others_alone(keys: Path, role: Role) -> None:
    before = {key.role: key for key in load_keyring(keys)}
    rotate_key(keys, role, ticking())
    ring = load_keyring(keys)
    for other in ROLES:
        assert (ring.active(other) == before[other]) == (other != role)


def test_every_generation_still_verifies_its_own_time(keys: Path) -> None:
    clock, signatures = ticking(), []
    for _ in range(5):
        signer = load_signer(keys, "kernel")
        signatures.append((signer.key_id, signer.sign("lease", BODY), render_time(clock())))
        rotate_key(keys, "kernel", clock)
    ring = load_keyring(keys)
    for key_id, signature, signed_at in signatures:
        assert refusal(ring, key_id, signature, signed_at) is None
    assert refusal(ring, signatures[0][0], signatures[0][1], signatures[1][2]) is Reason.KEY_RETIRED


def test_a_key_that_an_interrupted_rotation_kept_is_destroyed_by_the_next_change(keys: Path) -> None:
    (old_file,) = (keys / "kernel").iterdir()
    private = old_file.read_bytes()
    rotate_key(keys, "kernel", ticking())
    old_file.touch(mode=0o600)
    old_file.write_bytes(private)
    half_written = keys / "audit" / ".x.pem.0123456789abcdef.tmp"
    half_written.touch(mode=0o600)
    create_keys(keys, system_clock)
    assert not old_file.exists()
    assert not half_written.exists()
    assert load_signer(keys, "kernel").role == "kernel"


def test_rotating_without_a_key_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailureError, match="backup") as missing:
        rotate_key(tmp_path / "keys", "audit", system_clock)
    assert missing.value.reason is Reason.STATE_MISSING


def test_a_full_keyring_is_refused_before_anything_is_lost(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("remit.crypto.keyring.MAX_KEYS", 7)
    monkeypatch.setattr("remit.crypto.keyring.RESERVED_FOR_REVOKING", 2)
    rotate_key(keys, "audit", ticking())
    with pytest.raises(EnvironmentFailureError, match="more than 5 keys") as caught:
        rotate_key(keys, "audit", ticking())
    assert "--revoke" in caught.value.next_step
    assert load_signer(keys, "audit").role == "audit"
    assert len(list(keys.glob("*/*.pem"))) == len(ROLES), "no private key was left behind"


def test_a_leaked_key_can_be_revoked_when_the_keyring_is_too_full_for_a_plain_rotation(
    keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remit.crypto.keyring.MAX_KEYS", 7)
    monkeypatch.setattr("remit.crypto.keyring.RESERVED_FOR_REVOKING", 2)
    retired, _ = rotate_key(keys, "audit", ticking())
    for _ in range(2):
        old, new = rotate_key(keys, "audit", ticking(), revoke=True)
        assert old.revoked_at
        assert load_signer(keys, "audit").key_id == new.key_id
    with pytest.raises(EnvironmentFailureError, match="more than 7 keys"):
        rotate_key(keys, "audit", ticking(), revoke=True)
    assert revoke_key(keys, retired.key_id, ticking()).revoked_at, "a retired one needs no room"
    assert len(list(load_keyring(keys))) == 7
    assert len(list(keys.glob("*/*.pem"))) == len(ROLES)


def test_a_rotation_by_another_process_between_two_reads_does_not_look_like_a_missing_key(
    keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = load_keyring
    rotated: list[str] = []

    def load_then_rotate(folder: Path) -> Keyring:
        ring = honest(folder)
        if not rotated:
            rotated.append("")
            rotated[0] = rotate_key(keys, "executor", system_clock)[1].key_id
        return ring

    monkeypatch.setattr("remit.crypto.keyring.load_keyring", load_then_rotate)
    signer = load_signer(keys, "executor")
    assert [signer.key_id] == rotated


def test_a_key_whose_file_is_really_gone_is_missing(keys: Path) -> None:
    for path in (keys / "executor").glob("*.pem"):
        path.unlink()
    with pytest.raises(EnvironmentFailureError, match="executor private key is missing") as caught:
        load_signer(keys, "executor")
    assert caught.value.reason is Reason.STATE_MISSING


def test_loading_while_others_rotate_never_fails(keys: Path) -> None:
    done = threading.Event()

    def rotate() -> None:
        for _ in range(25):
            rotate_key(keys, "executor", system_clock)
        done.set()

    other = threading.Thread(target=rotate)
    other.start()
    loaded = set()
    while not done.is_set():
        loaded.add(load_signer(keys, "executor").key_id)
    other.join()
    assert len(loaded) > 1


def test_the_largest_keyring_can_be_read_back(keys: Path) -> None:
    raw = (keys / "keyring.json").read_bytes()
    longest_entry = 400  # bytes, with all three times
    assert len(raw) < 4 * longest_entry
    assert MAX_KEYS * longest_entry < 512 * 1024


def test_two_active_keys_of_a_role_mean_none() -> None:
    keys = [PublicKey("audit", bytes([number]) * 32, "2026-01-31T09:30:00Z") for number in (1, 2)]
    assert Keyring(keys).active("audit") is None
    assert Keyring(keys[:1]).active("audit") == keys[0]
