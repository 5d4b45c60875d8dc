"""No name, link or descriptor leads a hostile effect to a file outside its folders. Unconfined, each way does."""

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from remit.core.errors import RemitError
from remit.effects.registry import PathUse
from remit.sandbox.host import SandboxHost
from tests.sandbox.hostile_sandbox import BUILDS, SECRET, Arena, a_host, an_order, attempt, attempt_watched, make_arena
from tests.sandbox.system_call_numbers import number_of

REFUSALS: Final = {errno.EACCES, errno.EPERM, errno.EXDEV}
READ, WRITE, MAKE = os.O_RDONLY, os.O_WRONLY, os.O_WRONLY | os.O_CREAT
WAYS: Final[dict[str, dict[str, Any]]] = {
    "read by its path": {"name": "{root}/outside/secret.txt", "flags": READ},
    "write by its path": {"name": "{root}/outside/secret.txt", "flags": WRITE},
    "empty by its path": {"name": "{root}/outside/secret.txt", "flags": WRITE | os.O_TRUNC},
    "make a file outside": {"name": "{root}/outside/planted", "flags": MAKE},
    "make a file without a name outside": {"name": "{root}/outside", "flags": WRITE | os.O_TMPFILE},
    "make a file in the base itself": {"name": "{root}/inside/planted", "flags": MAKE},
    "up from a folder": {"name": "../../outside/secret.txt", "flags": READ, "at": "target"},
    "up and write": {"name": "../../outside/secret.txt", "flags": WRITE, "at": "target"},
    "down and up again": {"name": "below/../../../outside/secret.txt", "flags": READ, "at": "source"},
    "through the root of a process": {"name": "/proc/self/root{root}/outside/secret.txt", "flags": READ},
    "by its folder's name": {"name": "/proc/self/fd/{folder}/../../outside/secret.txt", "flags": READ, "at": "target"},
    "through a device's name": {"name": "/dev/fd/{folder}/../../outside/secret.txt", "flags": READ, "at": "target"},
    "through a link that lay there": {"name": "planted-link", "flags": READ, "at": "target"},
    "write through a link that lay there": {"name": "planted-link", "flags": WRITE, "at": "target"},
    "through a linked folder": {"name": "planted-folder/secret.txt", "flags": READ, "at": "target"},
    "a file of the system": {"name": "/etc/passwd", "flags": READ},
    "a library": {"name": "/proc/self/exe", "flags": READ},
    "its own memory": {"name": "/proc/self/mem", "flags": os.O_RDWR},
    "its own map": {"name": "/proc/self/maps", "flags": READ},
    "its parent's map": {"name": "/proc/{parent}/maps", "flags": READ},
    "its parent's environment": {"name": "/proc/{parent}/environ", "flags": READ},
    "its parent's open files": {"name": "/proc/{parent}/fd", "flags": READ | os.O_DIRECTORY},
    "a device": {"name": "/dev/zero", "flags": READ},
    "shared memory": {"name": "/dev/shm/planted-by-a-test", "flags": MAKE},  # noqa: S108 - that is the attack
    "a folder's names": {"name": "{root}/outside", "flags": READ | os.O_DIRECTORY},
    "the names of its own folder": {"name": ".", "flags": READ | os.O_DIRECTORY, "at": "target"},
}  # fmt: skip
# A write to one's own memory at address 0, and a read of it, fail in the open: getting a descriptor is the breach.
OPENS_BUT_FAILS: Final = {"its own memory"}


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    arena = make_arena(tmp_path / "arena")
    (arena.made / "planted-link").symlink_to(arena.secret)
    (arena.made / "planted-folder").symlink_to(arena.outside)
    return arena


@pytest.fixture(scope="module")
def first_arena(tmp_path_factory: pytest.TempPathFactory) -> Arena:
    return make_arena(tmp_path_factory.mktemp("files") / "arena")


@pytest.fixture(scope="module", params=BUILDS)
def confined(first_arena: Arena, request: pytest.FixtureRequest) -> Iterator[SandboxHost]:
    with a_host(first_arena, build=request.param) as host:
        yield host


@pytest.fixture(scope="module")
def loose(first_arena: Arena) -> Iterator[SandboxHost]:
    with a_host(first_arena, confined=False) as host:
        yield host


def text(value: str) -> dict[str, str]:
    return {"hex": (value.encode() + b"\0").hex()}


def with_root(arena: Arena, inputs: dict[str, Any]) -> dict[str, Any]:
    return {**inputs, "name": inputs["name"].replace("{root}", str(arena.root))}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.req("FX-11", "EI-17")
@pytest.mark.parametrize("way", WAYS)
def test_no_name_leads_out_of_the_folders(confined: SandboxHost, loose: SandboxHost, arena: Arena, way: str) -> None:
    inputs, before = with_root(arena, WAYS[way]), contents(arena.outside)
    held = attempt(confined, arena, "open", **inputs)
    assert held["errno"] in REFUSALS, held
    assert contents(arena.outside) == before
    free = attempt(loose, arena, "open", **inputs)
    assert ("errno" not in free) or (way in OPENS_BUT_FAILS and free["errno"] not in REFUSALS), "the control failed"
    Path("/dev/shm/planted-by-a-test").unlink(missing_ok=True)  # noqa: S108


@pytest.mark.req("FX-11")
@pytest.mark.parametrize("how", ["openat", "openat2"])
@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6777])
def test_no_program_can_be_planted_that_runs_as_its_owner(
    confined: SandboxHost, loose: SandboxHost, arena: Arena, mode: int, how: str
) -> None:
    """Modes are not only set by chmod: a file can be born with one."""
    planted = arena.made / "planted"
    attempt(confined, arena, "make_with_mode", mode=mode, how=how)
    assert not planted.exists() or not planted.stat().st_mode & 0o6000
    planted.unlink(missing_ok=True)
    assert attempt(confined, arena, "make_with_mode", mode=0o755, how="openat") == {"written": 9}, "the control"
    planted.unlink()
    assert attempt(loose, arena, "make_with_mode", mode=mode, how=how) == {"written": 9}
    # What is written to loses the bit again, but for root.
    assert os.geteuid() != 0 or planted.stat().st_mode & 0o6000, "the other control"


@pytest.mark.req("FX-11")
def test_a_descriptor_without_access_cannot_be_opened_again(
    confined: SandboxHost, loose: SandboxHost, arena: Arena
) -> None:
    assert attempt(confined, arena, "reopen", name=str(arena.secret))["errno"] in REFUSALS
    assert bytes.fromhex(attempt(loose, arena, "reopen", name=str(arena.secret))["read"]) == SECRET


@pytest.mark.parametrize("at", ["source", "target"])
def test_what_lies_in_its_own_folders_is_within_reach(confined: SandboxHost, arena: Arena, at: str) -> None:
    """The control of the controls: a sandbox that refuses everything proves nothing."""
    name = "source.bin" if at == "source" else "made-now"
    flags = READ if at == "source" else MAKE
    assert "errno" not in attempt(confined, arena, "open", name=name, flags=flags, at=at)


@pytest.mark.parametrize("use", [PathUse.READ, PathUse.TAKE])
@pytest.mark.parametrize("flags", [WRITE, WRITE | os.O_TRUNC])
def test_a_file_to_be_read_or_taken_cannot_be_written_to(
    confined: SandboxHost, loose: SandboxHost, arena: Arena, use: PathUse, flags: int
) -> None:
    """Limit: where a task also makes a file, the kernel wants equal rights in both folders before it moves one."""
    order = an_order(arena, "open", name="source.bin", flags=flags, at="source")
    order = replace(order, places={"source": replace(order.places["source"], use=use)})
    held, free = confined.run(order).output, loose.run(order).output
    assert held is not None
    assert held["errno"] in REFUSALS
    assert free == {"written": 7}, "the control"


@pytest.mark.parametrize("number, name", [("unlinkat", "source.bin"), ("openat", "planted")])
def test_a_folder_to_read_from_cannot_be_changed(
    confined: SandboxHost, loose: SandboxHost, arena: Arena, number: str, name: str
) -> None:
    order = an_order(
        arena,
        "call",
        number=number_of(number),
        arguments=[{"is": "folder"}, text(name), MAKE * (name == "planted"), 0o600],
    )
    place = replace(order.places["source"], use=PathUse.READ)
    order = replace(order, places={"target": place})
    before = contents(arena.inside)
    held = confined.run(order).output
    assert held is not None
    assert -held["result"] in REFUSALS
    assert contents(arena.inside) == before
    assert (loose.run(order).output or {})["result"] >= 0, "the control"
    assert contents(arena.inside) != before


@pytest.mark.req("FX-11")
@pytest.mark.parametrize("at", ["source", "target"])
def test_a_folder_that_was_given_open_cannot_be_listed(
    confined: SandboxHost, loose: SandboxHost, arena: Arena, at: str
) -> None:
    """No listing, no wildcards and no recursion."""
    assert attempt(confined, arena, "list_folder", at=at)["errno"] in REFUSALS
    assert attempt(loose, arena, "list_folder", at=at)["names"]


FOLDER: Final = {"is": "folder"}
SECRET_PATH: Final = {"path": "/outside/secret.txt"}
INSIDE_PATH: Final = {"path": "/inside/taken/source.bin"}
TO_OUTSIDE: Final = {"path": "/outside/moved"}
CHANGES: Final[dict[str, tuple[str, list[Any]]]] = {
    "link a file outside into the folder": ("linkat", [-100, SECRET_PATH, FOLDER, text("hard"), 0]),
    "link its own file to the outside": ("linkat", [-100, INSIDE_PATH, -100, TO_OUTSIDE, 0]),
    "move a file from outside in": ("renameat2", [-100, SECRET_PATH, FOLDER, text("stolen"), 1]),
    "move its own file out": ("renameat2", [-100, INSIDE_PATH, -100, TO_OUTSIDE, 1]),
    "exchange its own file with one outside": ("renameat2", [-100, INSIDE_PATH, -100, SECRET_PATH, 2]),
    "remove a file outside": ("unlinkat", [-100, SECRET_PATH, 0]),
    "remove a file outside from a folder": ("unlinkat", [FOLDER, text("../../outside/secret.txt"), 0]),
    "cut a file outside short": ("truncate", [SECRET_PATH, 0]),
    "remove a folder": ("unlinkat", [-100, {"path": "/inside/taken/below"}, 0x200]),
    "rename a folder": ("renameat2", [-100, {"path": "/inside/taken/below"}, FOLDER, text("x"), 1]),
    "leave a link behind": ("symlinkat", [SECRET_PATH, FOLDER, text("left-behind")]),
    "put a link in the place of its own file": ("symlinkat", [SECRET_PATH, FOLDER, text("target.bin")]),
}


@pytest.mark.req("FX-11", "EI-17")
@pytest.mark.parametrize("change", CHANGES)
def test_no_change_of_names_crosses_the_border_or_leaves_a_link(
    confined: SandboxHost, loose: SandboxHost, arena: Arena, change: str
) -> None:
    name, arguments = CHANGES[change]
    before, names = contents(arena.root), sorted(arena.root.rglob("*"))
    held = attempt(confined, arena, "call", number=number_of(name), arguments=arguments)
    assert -held["result"] in REFUSALS
    assert (contents(arena.root), sorted(arena.root.rglob("*"))) == (before, names)
    assert attempt(loose, arena, "call", number=number_of(name), arguments=arguments)["result"] == 0, "the control"
    assert (contents(arena.root), sorted(arena.root.rglob("*"))) != (before, names)


def test_a_link_that_another_process_left_behind_is_not_followed_for_the_next_task(
    confined: SandboxHost, arena: Arena
) -> None:
    assert "errno" not in attempt(confined, arena, "open", name="x", flags=MAKE, at="target"), "the control"
    arena.made.rename(arena.inside / "was-made")
    arena.made.symlink_to(arena.outside)
    with pytest.raises(RemitError):
        confined.run(an_order(arena, "open", name="planted", flags=MAKE, at="target"))
    assert contents(arena.outside) == {"secret.txt": SECRET}


# --- descriptors -----------------------------------------------------------------------------------------------------


def open_files(pid: int) -> dict[int, str]:
    folder = Path(f"/proc/{pid}/fd")
    return {int(name): os.readlink(folder / name) for name in os.listdir(folder)}


@pytest.mark.req("EI-07", "EI-17")
def test_a_sandboxed_process_has_open_only_its_folders_its_channel_and_the_lock(
    confined: SandboxHost, first_arena: Arena, arena: Arena
) -> None:
    """Looked at from outside, while it waits: one socket, so neither the zygote's nor another task's."""
    _, files = attempt_watched(confined, arena, "be_looked_at", lambda pid, _: open_files(pid))
    plain = sorted(target for target in files.values() if not target.startswith(("socket:", "/dev/null")))
    assert plain == sorted([str(first_arena.lock), str(arena.made), str(arena.inside / "taken")])
    assert len([target for target in files.values() if target.startswith("socket:")]) == 1


@pytest.mark.req("EI-17")
def test_nothing_that_the_host_has_open_can_be_reached_from_inside(tmp_path: Path) -> None:
    arena = make_arena(tmp_path / "arena")
    names = ["../../outside/secret.txt", "../outside/secret.txt", "outside/secret.txt", "secret.txt", ".."]
    with arena.secret.open("rb") as file:
        folder = os.open(arena.outside, os.O_RDONLY | os.O_DIRECTORY)
        for descriptor in (file.fileno(), folder):
            os.set_inheritable(descriptor, True)
        try:
            # The control: a process that is started without care does get them.
            program = "import os, sys; print(os.pread(int(sys.argv[1]), 64, 0).hex())"
            command = [sys.executable, "-c", program, str(file.fileno())]
            inherited = subprocess.run(command, close_fds=False, capture_output=True, check=True, text=True)
            assert bytes.fromhex(inherited.stdout) == SECRET
            with a_host(arena) as host:
                seen = attempt(host, arena, "walk_descriptors", names=names)
        finally:
            os.close(folder)
    assert seen["reached"] == []
    assert SECRET not in [bytes.fromhex(content) for content in seen["contents"]]


def test_without_confinement_the_same_walk_from_its_folders_reaches_the_secret(
    loose: SandboxHost, arena: Arena
) -> None:
    seen = attempt(loose, arena, "walk_descriptors", names=["../../outside/secret.txt"])
    assert len(seen["reached"]) >= 2


def is_locked(lock: Path) -> bool:
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.mark.req("EI-17")
def test_a_task_cannot_release_or_spoil_the_lock_that_tells_recovery_it_still_runs(
    confined: SandboxHost, first_arena: Arena, arena: Arena
) -> None:
    attempt(confined, arena, "remember")
    before = first_arena.lock.read_bytes()
    finished, files = attempt_watched(
        confined,
        arena,
        "tamper_with_the_lock",
        lambda pid, _: (is_locked(first_arena.lock), open_files(pid)),
        flock=number_of("flock"),
    )
    assert files[0], "still locked"
    assert str(first_arena.lock) in files[1].values(), "and still open in the task's process"
    assert first_arena.lock.read_bytes() == before
    assert finished.output is not None
    assert len(finished.output["results"]) == 5
    assert all(result < 0 for result in finished.output["results"])


def test_the_lock_is_free_once_the_host_is_closed(tmp_path: Path) -> None:
    arena = make_arena(tmp_path / "arena")
    with a_host(arena) as host:
        attempt(host, arena, "remember")
        assert is_locked(arena.lock)
    assert not is_locked(arena.lock)
