"""A private key stays in the process that needs it: not opened, not held, not printed, not copied by any other."""

import copy
import logging
import pickle
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from remit.core.errors import EnvironmentFailureError, UsageError
from remit.core.ids import system_clock
from remit.crypto.keyring import create_keys, load_keyring, load_signer
from remit.crypto.signing import ROLES, Signer
from tests.support.child_process import run_child

OPENED_FILES = """
import os, sys
from pathlib import Path
from remit.crypto.keyring import load_keyring, load_signer

def watch(event, arguments):
    if event in {"open", "os.listdir", "os.scandir"} and isinstance(arguments[0], (str, bytes)):
        print(event, os.fsdecode(arguments[0]))

folder = Path(sys.argv[1])
sys.addaudithook(watch)
load_keyring(folder) if sys.argv[2] == "none" else load_signer(folder, sys.argv[2])
"""

HOLD_A_KEY = """
import sys
from pathlib import Path
from remit.crypto.keyring import load_keyring, load_signer

ring, signer = load_keyring(Path(sys.argv[1])), load_signer(Path(sys.argv[1]), sys.argv[2])
signer.sign("result", b"{}")
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    create_keys(tmp_path / "keys", system_clock)
    return tmp_path / "keys"


def pem_of(keys: Path, role: str) -> bytes:
    (file,) = (keys / role).glob("*.pem")
    return file.read_bytes()


def seed_of(keys: Path, role: str) -> bytes:
    private = load_pem_private_key(pem_of(keys, role), password=None)
    assert isinstance(private, Ed25519PrivateKey)
    return private.private_bytes_raw()


def memory_of(pid: int) -> bytes:
    """Everything that the process could read of itself."""
    pieces = []
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in maps:
            span, permissions, *_ = line.split()
            if "rw" not in permissions:
                continue
            start, end = (int(part, 16) for part in span.split("-"))
            memory.seek(start)
            pieces.append(memory.read(end - start))
    return b"".join(pieces)


@pytest.mark.req("EI-07")
@pytest.mark.parametrize("role", ["executor", "audit", "none"])
def test_loading_one_role_opens_no_other_private_key(keys: Path, role: str) -> None:
    ended = run_child([sys.executable, "-c", OPENED_FILES, str(keys), role])
    assert ended.exit_code == 0, ended.output
    touched = {line.partition(" ")[2] for line in ended.output.splitlines()}
    inside = {Path(path).relative_to(keys).parts[0] for path in touched if Path(path).is_relative_to(keys)}
    assert inside == ({"keyring.json"} if role == "none" else {"keyring.json", role})


@pytest.mark.req("EI-07")
def test_the_memory_of_an_executor_process_holds_no_other_private_key(keys: Path) -> None:
    command = [sys.executable, "-c", HOLD_A_KEY, str(keys), "executor"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PYTHONPATH": source()}
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        memory = memory_of(child.pid)
        child.communicate()
    assert seed_of(keys, "executor") in memory, "the search finds a key where there is one"
    for role in ROLES:
        secret = pem_of(keys, role).splitlines()[1]
        assert (role == "executor") or (seed_of(keys, role) not in memory and secret not in memory)


def source() -> str:
    return str(Path(load_signer.__code__.co_filename).parents[2])


def secrets_in(text: str, keys: Path, role: str) -> list[str]:
    seed = seed_of(keys, role)
    forms = [pem_of(keys, role).splitlines()[1].decode(), seed.hex(), repr(seed)[2:-1], str(list(seed))[1:-1]]
    return [form for form in forms if form in text]


def full_report(caught: pytest.ExceptionInfo[EnvironmentFailureError]) -> str:
    """The traceback with every variable of every frame but the test's own."""
    inner = caught.value.with_traceback(caught.tb.tb_next)
    report = "".join(traceback.TracebackException.from_exception(inner, capture_locals=True).format())
    assert "in load_signer" in report
    assert "role = 'executor'" in report
    return report


def test_no_way_of_printing_a_signer_shows_its_key(keys: Path, caplog: pytest.LogCaptureFixture) -> None:
    signer = load_signer(keys, "audit")
    logging.getLogger("test").warning("signer %s %r %s", signer, signer, vars(signer))
    shown = f"{signer} {signer!r} {signer!s} {vars(signer)} {dir(signer)} {caplog.text}"
    assert secrets_in(shown, keys, "audit") == []
    assert signer.key_id in repr(signer)


@pytest.mark.parametrize(
    "duplicate", [pickle.dumps, copy.copy, copy.deepcopy, lambda signer: pickle.dumps([signer], protocol=2)]
)
def test_a_signer_cannot_be_copied_or_pickled(keys: Path, duplicate: object) -> None:
    signer = load_signer(keys, "audit")
    assert callable(duplicate)
    with pytest.raises(UsageError, match="may not be copied, pickled") as refused:
        duplicate(signer)
    assert secrets_in(str(refused.value), keys, "audit") == []


def test_an_error_while_loading_shows_no_key_even_with_all_variables_printed(keys: Path) -> None:
    """An exchanged key file: the loader has read a whole, valid private key when it refuses it."""
    (file,) = (keys / "executor").glob("*.pem")
    file.write_bytes(pem_of(keys, "kernel"))
    with pytest.raises(EnvironmentFailureError, match="does not belong to the public key") as refused:
        load_signer(keys, "executor")
    assert secrets_in(full_report(refused), keys, "kernel") == []


def test_an_unreadable_key_is_not_quoted(keys: Path) -> None:
    (file,) = (keys / "executor").glob("*.pem")
    half = pem_of(keys, "executor")[:80]
    file.write_bytes(half)
    with pytest.raises(EnvironmentFailureError, match="not a readable") as refused:
        load_signer(keys, "executor")
    assert half[30:60].decode() not in full_report(refused)


def test_a_keyring_holds_public_keys_only(keys: Path) -> None:
    text = (keys / "keyring.json").read_text() + repr(list(load_keyring(keys)))
    assert [secrets_in(text, keys, role) for role in ROLES] == [[]] * len(ROLES)


def test_a_signer_has_no_method_that_gives_its_key_away() -> None:
    public = {name for name in dir(Signer) if not name.startswith("_")}
    assert public == {"sign"}
