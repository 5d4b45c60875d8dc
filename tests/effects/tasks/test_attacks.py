"""Hostile paths against each role that a path can have: refused with a reason, and not a byte is changed anywhere.

Those of the list that are not for a file effect:
- path-066, a write into .git/hooks: a task names one file that its lease covers; protected files belong to plans.
- race-008 and race-009, two executors or fifty clients at once: the claims decide, see tests/tasks and tests/store.
- race-010 and race-011, authority that ends meanwhile: leases are looked at on the road, never by an effect.
race-002 and race-003, the swaps, run in test_swap_race.py; race-005, an edit before the way back, in test_cut_short.py.
"""

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import pytest

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError
from remit.effects.tasks.files import COPY, MOVE
from tests.effects.tasks.task_folder import Place, world
from tests.support.small_disks import only_root

ROLES: Final = ("move from", "move to", "copy from", "copy to", "delete")
FROM: Final = ("move from", "copy from", "delete")
TO: Final = ("move to", "copy to")
ROOT: Final = "root"  # the link in /proc, and no place of anybody's


class Attack(NamedTuple):
    """A path (`{ws}` and `{state}` are filled in), and what is put in place for it."""

    id: str
    path: str
    setup: str = ""
    roles: tuple[str, ...] = ROLES


DENIED: Final = (
    Attack("path-002", "../ws-secret/secret.txt"),
    Attack("path-002", "{ws}/../ws-secret/secret.txt"),
    Attack("path-002", "{ws}-secret/secret.txt"),
    Attack("path-009", "{ws}/../outside/secret.txt"),
    Attack("path-010", "{ws}/./sub/./.././../outside/secret.txt"),
    Attack("path-011", "{ws}/sub/.."),
    Attack("path-013", ""),
    Attack("path-014", "~/.ssh/authorized_keys"),
    Attack("path-018", "{ws}/" + b"..\xc0\xaf..\xc0\xafoutside/secret.txt".decode("utf-8", "surrogateescape")),
    Attack("path-019", "..\\outside\\secret.txt"),
    Attack("path-019", "{ws}/..\\outside\\secret.txt", roles=FROM),
    Attack("path-020", "{ws}/．．／outside／secret.txt", roles=FROM),
    Attack("path-022", "{ws}/sub/ok.txt\0.png"),
    Attack("path-032", "{ws}/" + "a" * 256),
    Attack("path-033", "{ws}/" + "d/" * 2500 + "x"),
    Attack("path-034", "{ws}/" + "d/" * 1000 + "x"),
    Attack("path-035", "{ws}/sub/\ud800x"),
    Attack("path-036", "{ws}/link", "link ../outside/secret.txt"),
    Attack("path-037", "{ws}/link", "link ../outside/nothing-yet"),
    Attack("path-038", "{ws}/link/secret.txt", "link ../outside"),
    Attack("path-039", "{ws}/link/new.txt", "link ../outside"),
    Attack("path-041", "{ws}/link/passwd", "link /etc"),
    Attack("path-042", "{ws}/link", "loop"),
    Attack("path-043", "{ws}/link", "chain"),
    Attack("path-044", "{ws}/link/here/sub/ok.txt", "link .."),
    Attack("path-045", f"/proc/self/{ROOT}/etc/passwd"),
    Attack("path-046", "/proc/self/cwd/../outside/secret.txt"),
    Attack("path-047", "{ws}/link/etc/passwd", "link /proc/self/root"),
    Attack("path-048", "/dev/fd/3"),
    Attack("path-050", "/proc/self/mem"),
    Attack("path-051", "{ws}/odd", "hard link"),
    Attack("path-052", "{ws}/odd", "hard link", TO),
    Attack("path-053", "{ws}/odd", "fifo"),
    Attack("path-054", "{ws}/odd", "socket"),
    Attack("path-055", "{ws}/odd", "device"),
    Attack("path-056", "{ws}/sub"),
    Attack("path-057", "{ws}/odd/secret.txt", "bind mount"),
    Attack("path-060", "{ws}/sub/../protected/.env"),
    Attack("path-064", "{ws}/protected", roles=("move from",)),
    Attack("path-070", "{ws}/../**"),
    Attack("path-070", "{ws}/sub/*", roles=FROM),
    Attack("path-073", "{state}/keys/issuer.pem"),
    Attack("path-074", "{state}/snapshots/x"),
)

ALLOWED: Final = (
    Attack("path-019", "{ws}/..\\outside\\new.txt"),
    Attack("path-023", "{ws}/sub/a\nb"),
    Attack("path-024", "{ws}/sub/\x1b[2J\x1b[31mok"),
    Attack("path-031", "{ws}/protected./.env"),
    Attack("path-071", "{ws}/--help"),
    Attack("path-077", "{ws}/sub/..foo"),
    Attack("path-078", "{ws}/sub/..."),
    Attack("path-079", "{ws}/sub/a..b"),
    Attack("path-083", "{ws}/sub/文書.txt"),
    Attack("path-085", "{ws}/" + "a" * 255),
    Attack("path-086", "{ws}/sub/C:\\x"),
    Attack("path-089", "{ws}/sub//ok2.txt"),
    Attack("path-091", "{ws}/read-only"),
    Attack("path-092", "{ws}/sub/empty"),
)


def rows(attacks: tuple[Attack, ...]) -> list[object]:
    """One case for each role."""
    needs_root = {"device", "bind mount"}
    return [
        pytest.param(
            attack, role, id=f"{attack.id} {role} {number}", marks=only_root if attack.setup in needs_root else ()
        )
        for number, attack in enumerate(attacks)
        for role in attack.roles
    ]


@pytest.fixture
def ws(place: Place) -> Place:
    """A workspace with a secret beside it."""
    place.file("sub/ok.txt", b"ok")
    place.file("protected/.env", b"protected")
    (place.here / "protected.").mkdir()
    for secret in ("outside/secret.txt", "here-secret/secret.txt", "state/keys/issuer.pem", "state/snapshots/x"):
        (place.root / secret).parent.mkdir(parents=True, exist_ok=True)
        (place.root / secret).write_bytes(b"SECRET")
    place.file("plain", b"plain")
    return place


def attempt(place: Place, role: str, path: str) -> None:
    plain, free = str(place.here / "plain"), str(place.there / "free")
    match role:
        case "move from":
            place.run("FILE_MOVE", source_path=path, destination_path=free)
        case "copy from":
            place.run("FILE_COPY", source_path=path, destination_path=free)
        case "move to":
            place.run("FILE_MOVE", source_path=plain, destination_path=path)
        case "copy to":
            place.run("FILE_COPY", source_path=plain, destination_path=path)
        case _:
            place.run("FILE_DELETE", source_path=path)


@pytest.mark.req("FX-02", "FX-04", "FX-05", "FX-13")
@pytest.mark.parametrize("attack, role", rows(DENIED))
def test_a_hostile_path_is_refused_and_nothing_changes(ws: Place, attack: Attack, role: str) -> None:
    with installed(ws, attack.setup):
        was = world(ws.root)
        with pytest.raises(RefusedError) as caught:
            attempt(ws, role, fill(attack.path, ws))
        assert world(ws.root) == was
    assert caught.value.reason in {Reason.PATH_REFUSED, Reason.FILE_CONFLICT, Reason.FILE_MISSING}
    assert caught.value.next_step
    assert str(caught.value).isprintable()


@pytest.mark.req("FX-02", "FX-05")
@pytest.mark.parametrize("attack, role", rows(ALLOWED))
def test_a_path_that_only_looks_odd_is_taken_literally(ws: Place, attack: Attack, role: str) -> None:
    path = fill(attack.path, ws)
    content = b"" if attack.id == "path-092" else b"odd"
    if role in FROM:
        with open(path, "wb") as stream:
            stream.write(content)
        os.chmod(path, 0o444)
    attempt(ws, role, path)
    assert os.path.exists(path) == (role in {"copy from", "move to", "copy to"})
    if role in {"move from", "copy from"}:
        assert (ws.there / "free").read_bytes() == content
    assert (ws.outside / "secret.txt").read_bytes() == b"SECRET"


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J\x1b[31mok", "\u202etxt.exe"])
def test_a_name_that_could_fool_a_terminal_is_spelled_out_in_every_refusal(ws: Place, name: str) -> None:
    """path-023, path-024."""
    for role in FROM:
        with pytest.raises(RefusedError) as caught:
            attempt(ws, role, str(ws.here / name))
        assert str(caught.value).isprintable()


@pytest.mark.req("FX-08")
def test_eight_terabytes_of_nothing_are_not_copied_into_a_snapshot(ws: Place) -> None:
    """path-058."""
    sparse = ws.file("sparse")
    os.truncate(sparse, 8 << 40)
    with pytest.raises(RefusedError) as caught:
        ws.run("FILE_DELETE", source_path=sparse)
    assert caught.value.reason is Reason.RESOURCE_EXHAUSTED
    assert sparse.stat().st_size == 8 << 40


@only_root
@pytest.mark.req("FX-13")
def test_a_file_of_another_user_that_may_not_be_read_is_a_failure_and_not_a_change(ws: Place) -> None:
    """path-076. The folders are open already; the file is opened by an ordinary user."""
    source = ws.file("other", b"private", 0o600)
    work = ws.prepare("FILE_COPY", source_path=source, destination_path=ws.there / "free")
    was = world(ws.root)
    os.seteuid(65534)
    try:
        with pytest.raises(EnvironmentFailureError, match="Permission denied") as caught:
            COPY.run(work)
    finally:
        os.seteuid(0)
    assert caught.value.reason is Reason.PERMISSION_DENIED
    assert world(ws.root) == was


@pytest.mark.req("FX-05")
@pytest.mark.parametrize("kind", ["link to a secret", "dangling link"])
def test_a_link_planted_under_the_part_name_is_refused_and_not_followed(ws: Place, kind: str) -> None:
    """race-007."""
    work = ws.prepare("FILE_COPY", source_path=ws.here / "plain", destination_path=ws.there / "free")
    target = ws.outside / ("secret.txt" if kind == "link to a secret" else "new")
    (ws.there / work.part_name).symlink_to(target)
    was = world(ws.root)
    with pytest.raises(RefusedError, match="exists already, and the task needs this name"):
        COPY.run(work)
    assert world(ws.root) == was
    assert ws.settle(work, finish=True) is None, "and recovery neither follows nor removes it"
    assert world(ws.root) == was


def test_a_folder_that_was_moved_out_after_it_was_opened_does_not_widen_the_reach(ws: Place) -> None:
    """Work goes on in the folder that was opened; nothing else outside is touched."""
    work = ws.prepare("FILE_MOVE", source_path=ws.here / "plain", destination_path=ws.here / "sub" / "new")
    (ws.here / "sub").rename(ws.outside / "sub")
    (ws.here / "sub").symlink_to(ws.outside)
    MOVE.run(work)
    assert sorted(os.listdir(ws.outside)) == ["secret.txt", "sub"]
    assert (ws.outside / "secret.txt").read_bytes() == b"SECRET"


def fill(path: str, place: Place) -> str:
    return path.replace("{ws}", str(place.here)).replace("{state}", str(place.root / "state"))


@contextmanager
def installed(place: Place, setup: str) -> Iterator[None]:
    word, _, rest = setup.partition(" ")
    if word == "link":
        (place.here / "link").symlink_to(rest)
    elif setup:
        SETUPS[setup](place)
    try:
        yield
    finally:
        if setup == "bind mount":
            subprocess.run(["umount", str(place.here / "odd")], check=True)


def _chain(place: Place) -> None:
    for number in range(41):
        (place.here / f"c{number}").symlink_to(f"c{number + 1}")
    (place.here / "link").symlink_to("c0")


def _loop(place: Place) -> None:
    (place.here / "link").symlink_to("loop")
    (place.here / "loop").symlink_to("link")


def _socket(place: Place) -> None:
    old = os.getcwd()
    os.chdir(place.here)  # the path of a socket may have 107 bytes only
    try:
        with socket.socket(socket.AF_UNIX) as end:
            end.bind("odd")
    finally:
        os.chdir(old)


def _bind(place: Place) -> None:
    (place.here / "odd").mkdir()
    subprocess.run(["mount", "--bind", str(place.outside), str(place.here / "odd")], check=True)


SETUPS: Final[dict[str, Callable[[Place], None]]] = {
    "chain": _chain,
    "loop": _loop,
    "hard link": lambda place: os.link(place.outside / "secret.txt", place.here / "odd"),
    "fifo": lambda place: os.mkfifo(place.here / "odd"),
    "socket": _socket,
    "device": lambda place: os.mknod(place.here / "odd", 0o20666, os.makedev(1, 5)),
    "bind mount": _bind,
}
