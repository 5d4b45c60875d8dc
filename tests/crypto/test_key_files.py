"""Key files: who may read them, what they may be, and that anything else is refused with a reason."""

import json
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from remit.core.errors import EnvironmentFailureError, Reason, RemitError
from remit.core.ids import system_clock
from remit.crypto.keyring import create_keys, load_keyring, load_signer, private_key_problems
from remit.crypto.signing import ROLES, encode_base64url
from tests.support.child_process import run_child

NOBODY = 65534
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = tmp_path / "keys"
    create_keys(folder, system_clock)
    return folder


def private_file(keys: Path, role: str = "executor") -> Path:
    (file,) = (keys / role).glob("*.pem")
    return file


def test_key_files_are_private_to_their_owner(keys: Path) -> None:
    files = [keys / "keyring.json", *(private_file(keys, role) for role in ROLES)]
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * 5
    folders = [keys, *(keys / role for role in ROLES)]
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * 5
    assert private_key_problems(keys) == []


def test_key_files_are_private_under_the_most_open_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        create_keys(tmp_path / "keys", system_clock)
    finally:
        os.umask(before)
    assert private_key_problems(tmp_path / "keys") == []


def test_creating_keys_again_changes_nothing(keys: Path) -> None:
    before = {path: path.read_bytes() for path in keys.rglob("*") if path.is_file()}
    create_keys(keys, system_clock)
    assert {path: path.read_bytes() for path in keys.rglob("*") if path.is_file()} == before


def test_keys_created_twice_at_once_are_one_set(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    with ThreadPoolExecutor(8) as pool:
        rings = list(pool.map(lambda _: create_keys(folder, system_clock), range(8)))
    assert len({tuple(sorted(key.key_id for key in ring)) for ring in rings}) == 1
    assert [load_signer(folder, role).role for role in ROLES] == list(ROLES)


def test_a_missing_role_is_made_and_the_others_stay(keys: Path) -> None:
    before = {key.role: key.key_id for key in load_keyring(keys)}
    file = keys / "keyring.json"
    tree = json.loads(file.read_bytes())
    tree["keys"] = [entry for entry in tree["keys"] if entry["role"] != "protocol"]
    file.write_text(json.dumps(tree))
    after = {key.role: key.key_id for key in create_keys(keys, system_clock)}
    assert after["protocol"] != before["protocol"]
    assert {role: after[role] for role in ("kernel", "executor", "audit")} == {
        role: before[role] for role in ("kernel", "executor", "audit")
    }


Spoil = Callable[[Path, Path], Any]


def swap(file: Path, other: Path) -> None:
    file.write_bytes(other.read_bytes())


def link_to_copy(file: Path, _: Path) -> None:
    real = file.with_name("real.pem")
    file.rename(real)
    file.symlink_to(real)


def hard_link(file: Path, _: Path) -> None:
    os.link(file, file.with_name("second-name"))


def fifo(file: Path, _: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def folder_instead(file: Path, _: Path) -> None:
    file.unlink()
    file.mkdir(0o700)


def other_algorithm(file: Path, _: Path) -> None:
    key = generate_private_key(SECP256R1())
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


@pytest.mark.parametrize(
    "spoil, why",
    [
        pytest.param(lambda file, _: file.chmod(0o640), r"open to others \(mode 0640\)", id="readable by the group"),
        pytest.param(lambda file, _: file.chmod(0o604), r"open to others \(mode 0604\)", id="readable by everybody"),
        pytest.param(lambda file, _: file.chmod(0o620), r"open to others \(mode 0620\)", id="writable by the group"),
        pytest.param(lambda file, _: file.parent.chmod(0o750), "the folder of the executor key is open", id="folder"),
        pytest.param(lambda file, _: file.parent.parent.chmod(0o755), "the key folder is open", id="top folder"),
        pytest.param(link_to_copy, "is a symbolic link", id="symbolic link"),
        pytest.param(hard_link, "second name", id="hard link"),
        pytest.param(fifo, "not a regular file", id="FIFO"),
        pytest.param(folder_instead, "not a regular file", id="directory"),
        pytest.param(lambda file, _: file.write_bytes(b"A" * (1 << 20)), "too large", id="oversize"),
        pytest.param(lambda file, _: file.write_bytes(b"garbage"), "not a readable Ed25519 key", id="garbage"),
        pytest.param(lambda file, _: file.write_bytes(b""), "not a readable Ed25519 key", id="empty"),
        pytest.param(lambda file, _: file.write_bytes(file.read_bytes()[:60]), "not a readable", id="cut short"),
        pytest.param(other_algorithm, "not a readable Ed25519 key", id="another algorithm"),
        pytest.param(swap, "does not belong to the public key", id="exchanged"),
        pytest.param(lambda file, _: file.unlink(), "is missing", id="missing"),
    ],
)
def test_a_spoiled_private_key_is_refused(keys: Path, spoil: Spoil, why: str) -> None:
    file = private_file(keys)
    spoil(file, private_file(keys, "kernel"))
    with pytest.raises(EnvironmentFailureError, match=why) as refused:
        load_signer(keys, "executor")
    assert refused.value.reason in {Reason.STATE_UNSAFE, Reason.STATE_MISSING}
    assert refused.value.next_step


def edit_keyring(change: Callable[[list[dict[str, Any]]], Any]) -> Spoil:
    def spoil(file: Path, _: Path) -> None:
        tree = json.loads(file.read_bytes())
        change(tree["keys"])
        file.write_text(json.dumps(tree))

    return spoil


@pytest.mark.parametrize(
    "spoil, why",
    [
        pytest.param(lambda file, _: file.chmod(0o644), "open to others", id="readable by everybody"),
        pytest.param(lambda file, _: file.parent.chmod(0o770), "the key folder is open", id="folder"),
        pytest.param(link_to_copy, "is a symbolic link", id="symbolic link"),
        pytest.param(hard_link, "second name", id="hard link"),
        pytest.param(fifo, "not a regular file", id="FIFO"),
        pytest.param(lambda file, _: file.write_bytes(b" " * (1 << 20)), "too large", id="oversize"),
        pytest.param(lambda file, _: file.write_bytes(b"{}"), "missing", id="another document"),
        pytest.param(lambda file, _: file.write_bytes(b"\xff"), "not UTF-8", id="garbage"),
        pytest.param(lambda file, _: file.unlink(), "is missing", id="missing"),
        pytest.param(edit_keyring(lambda keys: keys.append(keys[0])), "lists a key twice", id="a key twice"),
        pytest.param(
            edit_keyring(lambda keys: keys[0].update(key_id=keys[1]["key_id"])), "does not fit its key", id="key id"
        ),
        pytest.param(
            edit_keyring(lambda keys: keys[0].update(role=keys[1]["role"])), "2 active .* keys", id="two active keys"
        ),
        pytest.param(edit_keyring(lambda keys: keys[0].update(role="root")), "keys", id="unknown role"),
        pytest.param(edit_keyring(lambda keys: keys[0].update(extra=1)), "not known here", id="unknown field"),
        pytest.param(
            edit_keyring(lambda keys: keys[0].update(public_key=keys[0]["public_key"][:-1] + "B")),
            "base64url|does not fit",
            id="second spelling",
        ),
    ],
)
def test_a_spoiled_keyring_is_refused(keys: Path, spoil: Spoil, why: str) -> None:
    spoil(keys / "keyring.json", keys)
    with pytest.raises(RemitError, match=why):
        load_keyring(keys)
    with pytest.raises(RemitError, match=why):
        load_signer(keys, "audit")


def test_a_key_of_another_owner_is_refused(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.raises(EnvironmentFailureError, match=f"belongs to user {mine}, not to user {mine + 1}"):
        load_signer(keys, "executor")


@only_root
@pytest.mark.parametrize("part", ["", "executor", "keyring.json", "file"])
def test_a_part_that_belongs_to_another_user_is_refused(keys: Path, part: str) -> None:
    os.chown(private_file(keys) if part == "file" else keys / part, NOBODY, NOBODY)
    with pytest.raises(EnvironmentFailureError, match=f"belongs to user {NOBODY}, not to user 0"):
        load_signer(keys, "executor")


LOAD_AS_NOBODY = f"""
import os, sys
from pathlib import Path
from remit.crypto.keyring import load_signer
from remit.core.errors import EnvironmentFailureError
os.setgroups([]), os.setgid({NOBODY}), os.setuid({NOBODY})
try:
    print("loaded", load_signer(Path(sys.argv[1]), "executor").role)
except EnvironmentFailureError as refused:
    print("refused:", refused)
"""


@only_root
def test_another_user_cannot_load_our_key(keys: Path) -> None:
    ended = run_child([sys.executable, "-c", LOAD_AS_NOBODY, str(keys)])
    assert ended.exit_code == 0, ended.output
    assert ended.output.startswith("refused: the key folder cannot be read: Permission denied")


@only_root
def test_another_user_is_refused_our_key_even_where_the_way_is_open() -> None:
    with tempfile.TemporaryDirectory() as open_folder:
        Path(open_folder).chmod(0o711)
        keys = Path(open_folder) / "keys"
        create_keys(keys, system_clock)
        os.chown(keys, NOBODY, NOBODY)
        ended = run_child([sys.executable, "-c", LOAD_AS_NOBODY, str(keys)])
    assert ended.exit_code == 0, ended.output
    assert ended.output.startswith("refused: the keyring belongs to user 0, not to user 65534")


def test_private_keys_are_not_written_into_an_open_folder(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    folder.mkdir()
    folder.chmod(0o755)
    with pytest.raises(EnvironmentFailureError, match="the key folder is open to others"):
        create_keys(folder, system_clock)
    assert list(folder.iterdir()) == []


def test_the_doctor_names_every_problem(keys: Path) -> None:
    private_file(keys, "kernel").chmod(0o644)
    (keys / "audit").chmod(0o755)
    problems = private_key_problems(keys)
    assert len(problems) == 2
    assert "audit is open to others (mode 0755)" in problems[0]
    assert ".pem is open to others (mode 0644)" in problems[1]
    assert private_key_problems(keys / "nowhere") == [f"{keys / 'nowhere'} is missing"]


def test_a_signers_public_half_is_the_one_in_the_keyring(keys: Path) -> None:
    ring = {entry["role"]: entry for entry in json.loads((keys / "keyring.json").read_bytes())["keys"]}
    for role in ROLES:
        assert encode_base64url(load_signer(keys, role).public) == ring[role]["public_key"]
