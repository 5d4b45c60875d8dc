"""No private key, and nothing of the host's state, is within reach of a sandboxed process: looked for, not assumed."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from remit.core.ids import system_clock
from remit.crypto.keyring import create_keys, load_signer
from remit.crypto.signing import ROLES, Signer
from remit.sandbox.host import SandboxHost
from tests.sandbox.hostile_sandbox import BUILDS, Arena, a_host, attempt, attempt_watched, make_arena

PASSWORD = "pass-the-salt-" + os.urandom(8).hex()
REFUSALS = {errno.EACCES, errno.EPERM}


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    return make_arena(tmp_path_factory.mktemp("secrets") / "arena")


@pytest.fixture(scope="module")
def state(arena: Arena) -> Path:
    """A state directory as a workspace has it: keys of every role, and a ledger."""
    state = arena.root / "state"
    create_keys(state / "keys", system_clock)
    (state / "ledger.db").write_bytes(b"what happened")
    return state


@pytest.fixture(scope="module")
def signers(state: Path) -> list[Signer]:
    return [load_signer(state / "keys", role) for role in ROLES]


@pytest.fixture(scope="module", params=BUILDS)
def confined(arena: Arena, signers: list[Signer], request: pytest.FixtureRequest) -> Iterator[SandboxHost]:
    """The keys are loaded, and a password is in the environment, before the host starts anything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REMIT_TEST_PASSWORD", PASSWORD)
        with a_host(arena, build=request.param) as host:
            yield host


@pytest.fixture(scope="module")
def loose(arena: Arena) -> Iterator[SandboxHost]:
    with a_host(arena, confined=False) as host:
        yield host


def secrets_of(state: Path) -> dict[str, bytes]:
    """For each role the seed, and the line of the key file that holds it."""
    found = {}
    for role in ROLES:
        (file,) = (state / "keys" / role).glob("*.pem")
        private = load_pem_private_key(file.read_bytes(), password=None)
        assert isinstance(private, Ed25519PrivateKey)
        found[f"{role} seed"] = private.private_bytes_raw()
        found[f"{role} file"] = file.read_bytes().splitlines()[1]
    return found


def found_in_memory(pid: int, secrets: dict[str, bytes]) -> set[str]:
    """Everything that is mapped readable is searched, whatever it is for."""
    found: set[str] = set()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, permissions, *_ = line.split()
            start, end = (int(part, 16) for part in span.split("-"))
            if permissions.startswith("r") and "[v" not in line:
                memory.seek(start)
                piece = memory.read(end - start)
                found |= {name for name, secret in secrets.items() if secret in piece}
    return found


@pytest.mark.req("EI-07", "EI-17")
def test_neither_the_task_nor_the_zygote_has_a_private_key_in_its_memory(
    confined: SandboxHost, arena: Arena, state: Path, signers: list[Signer]
) -> None:
    secrets = secrets_of(state)
    seeds = {name for name in secrets if name.endswith("seed")}
    assert seeds <= found_in_memory(os.getpid(), secrets), "the search finds keys where they are"
    known = {**secrets, "root": str(arena.root).encode()}
    _, found = attempt_watched(
        confined, arena, "be_looked_at", lambda *pids: [found_in_memory(pid, known) for pid in pids]
    )
    assert found[0] == {"root"}, "of the host's secrets nothing; of its own order, this"
    assert found[1] <= {"root"}


@pytest.mark.req("EI-07")
def test_neither_has_the_hosts_environment(confined: SandboxHost, arena: Arena) -> None:
    assert os.environ["REMIT_TEST_PASSWORD"] == PASSWORD
    finished, seen = attempt_watched(
        confined,
        arena,
        "be_looked_at",
        lambda *pids: [
            (Path(f"/proc/{pid}/environ").read_bytes(), found_in_memory(pid, {"password": PASSWORD.encode()}))
            for pid in pids
        ],
    )
    assert finished.output == {"environment": {}}
    for environment, found in seen:
        assert PASSWORD.encode() not in environment
        assert b"PATH=" not in environment
        assert found == set()


@pytest.mark.req("EI-07", "EI-17")
@pytest.mark.parametrize("role", ROLES)
def test_no_private_key_can_be_read_from_its_file(
    confined: SandboxHost, loose: SandboxHost, arena: Arena, state: Path, role: str
) -> None:
    (file,) = (state / "keys" / role).glob("*.pem")
    inputs = {"name": str(file), "flags": os.O_RDONLY}
    assert attempt(confined, arena, "open", **inputs)["errno"] in REFUSALS
    assert bytes.fromhex(attempt(loose, arena, "open", **inputs)["read"]) == file.read_bytes()[:64], "the control"


@pytest.mark.req("EI-17")
@pytest.mark.parametrize("flags", [os.O_WRONLY, os.O_WRONLY | os.O_TRUNC, os.O_RDWR | os.O_APPEND])
@pytest.mark.parametrize("name", ["ledger.db", "keys/keyring.json"])
def test_the_ledger_and_the_keyring_cannot_be_written_to(
    confined: SandboxHost, loose: SandboxHost, arena: Arena, state: Path, name: str, flags: int
) -> None:
    file, before = state / name, (state / name).read_bytes()
    inputs = {"name": str(file), "flags": flags}
    assert attempt(confined, arena, "open", **inputs)["errno"] in REFUSALS
    assert file.read_bytes() == before
    assert attempt(loose, arena, "open", **inputs) == {"written": 7}, "the control"
    file.write_bytes(before)


def test_the_memory_of_the_parent_cannot_be_opened(confined: SandboxHost, loose: SandboxHost, arena: Arena) -> None:
    """Nor of anybody else: the host's is one of them."""
    for pid in ("{parent}", str(os.getpid()), "self"):
        inputs = {"name": f"/proc/{pid}/mem", "flags": os.O_RDONLY}
        assert attempt(confined, arena, "open", **inputs)["errno"] in REFUSALS
        # Address 0 is never mapped: reading there fails, having got so far is the breach.
        assert attempt(loose, arena, "open", **inputs)["errno"] == errno.EIO, "the control"
