"""kill -9 while keys are made or rotated: each role has one usable key afterwards, and old signatures still verify."""

import pytest

from remit.core.errors import EnvironmentFailureError, RemitError
from remit.core.ids import render_time, system_clock
from remit.crypto.keyring import create_keys, load_keyring, load_signer, private_key_problems, rotate_key
from remit.crypto.signing import ROLES
from tests.crash.store.cases import KEY_POINTS, ROTATION_POINTS, MakePlace, faults, run
from tests.crash.store.crash_workspace import Place
from tests.support.child_process import Fault
from tests.support.sampling import some


def files(place: Place) -> list[str]:
    return sorted(str(path.relative_to(place.keys)) for path in place.keys.rglob("*") if path.is_file())


def what_is_wrong(place: Place) -> list[str]:
    """Why the keys could not be used now, or would not be tidy after the next change; empty if all is well."""
    problems = []
    try:
        ring = create_keys(place.keys, system_clock)
        for role in ROLES:
            signer = load_signer(place.keys, role)
            active = ring.active(role)
            if active is None or signer.key_id != active.key_id:
                problems.append(f"the {role} key is not the active one")
        named = {f"{key.role}/{key.key_id}.pem" for key in ring if not key.retired_at}
        problems += [f"{name} was left behind" for name in files(place) if name.endswith(".tmp")]
        problems += [f"{name} is missing" for name in named - set(files(place))]
        retired = {f"{key.role}/{key.key_id}.pem" for key in ring if key.retired_at}
        problems += [f"{name} should have been destroyed" for name in retired & set(files(place))]
        problems += private_key_problems(place.keys)
    except RemitError as problem:
        problems.append(str(problem))
    return problems


@pytest.mark.parametrize("fault", some(faults(KEY_POINTS), 2))
def test_making_keys_can_be_interrupted_and_repeated(make_place: MakePlace, fault: Fault) -> None:
    place = make_place("sqlite")
    ended = run(place, "keys", fault, count=1)
    assert ended.acknowledged == ()
    before = load_keyring(place.keys) if (place.keys / "keyring.json").exists() else None
    assert what_is_wrong(place) == []
    if before is not None:
        assert {key.key_id for key in load_keyring(place.keys)} == {key.key_id for key in before}


@pytest.mark.parametrize("fault", some(faults(ROTATION_POINTS), 2))
def test_a_rotation_can_be_interrupted_at_any_point(make_place: MakePlace, fault: Fault) -> None:
    place = make_place("sqlite")
    create_keys(place.keys, system_clock)
    first = load_signer(place.keys, "audit")
    signature, signed_at = first.sign("ledger-head", b"{}"), render_time(system_clock())
    ended = run(place, "rotate", fault, count=3)

    now = load_signer(place.keys, "audit")
    completed = [word.split()[1] for word in ended.acknowledged]
    ring = load_keyring(place.keys)
    assert all(any(key.key_id == key_id for key in ring) for key_id in completed)
    now.sign("ledger-head", b"{}")
    ring.verify("ledger-head", first.key_id, b"{}", signature, signed_at=signed_at)

    assert what_is_wrong(place) == []
    rotate_key(place.keys, "audit", system_clock)
    assert what_is_wrong(place) == []


@pytest.mark.parametrize("fault", [Fault(point, 1, "error") for point in KEY_POINTS], ids=lambda fault: fault.point)
def test_an_error_while_making_keys_surfaces_and_can_be_repeated(make_place: MakePlace, fault: Fault) -> None:
    place = make_place("sqlite")
    ended = run(place, "keys", fault, count=1)
    assert ended.exit_code == 1
    assert ended.acknowledged == ()
    assert "the disk, or a quota on it, is full" in ended.output or "fault injected" in ended.output
    assert what_is_wrong(place) == []


def test_without_the_repeat_missing_keys_are_reported_not_invented(make_place: MakePlace) -> None:
    place = make_place("sqlite")
    run(place, "keys", Fault("keys.private_written", 2), count=1)
    with pytest.raises(EnvironmentFailureError, match="the keyring is missing"):
        load_signer(place.keys, "kernel")
