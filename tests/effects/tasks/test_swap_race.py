"""Somebody exchanges a folder, or a file, for a link to a secret without pause while tasks run: no escape, ever.

The same race is run against a gate that resolves the path first and opens it afterwards, the way it is often done: that
one must be caught, or this test proves nothing. 5 seconds by default, 60 with REMIT_LONG=1.
"""

import ctypes
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from remit.core.errors import RemitError
from remit.fs.paths import locate
from remit.tasks.snapshots import open_snapshot, take_snapshot
from tests.effects.tasks.task_folder import MAX_BYTES, Place

SECONDS: Final = 60.0 if os.environ.get("REMIT_LONG") else 5.0
SECRET: Final = b"SECRET"

SWAPPER: Final = """
import ctypes, os, sys
renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
pairs = [(a.encode(), b.encode()) for a, b in zip(sys.argv[1::2], sys.argv[2::2])]
print("ready", flush=True)
while os.getppid() != 1:
    for a, b in pairs:
        renameat2(-100, a, -100, b, 2)  # RENAME_EXCHANGE
"""


class Arena:
    """`sub` and `evil` change places all the time, and so do `file` and `link`."""

    def __init__(self, place: Place) -> None:
        self.place = place
        place.file("sub/file", b"inside")
        place.file("plain", b"plain")
        place.file("file", b"inside")
        (place.outside / "file").write_bytes(SECRET)
        (place.here / "evil").symlink_to(place.outside)
        (place.here / "link").symlink_to(place.outside / "file")
        self.real = os.open(place.here / "sub", os.O_RDONLY | os.O_DIRECTORY)

    @contextmanager
    def swapping(self) -> Iterator[None]:
        here = self.place.here
        pairs = [str(here / name) for name in ("sub", "evil", "file", "link")]
        command = [sys.executable, "-c", SWAPPER, *pairs]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as swapper:
            assert swapper.stdout is not None
            swapper.stdout.readline()
            try:
                yield
            finally:
                swapper.kill()
        os.close(self.real)

    def escaped(self) -> str:
        """What got out, or in. Clears the ground for the next try."""
        found = ""
        for name in os.listdir(self.place.there):
            if (self.place.there / name).read_bytes() == SECRET:
                found = f"the secret was copied to {name}"
            (self.place.there / name).unlink()
        strangers = set(os.listdir(self.place.outside)) - {"file"}
        if strangers or (self.place.outside / "file").read_bytes() != SECRET:
            found = f"the outside was changed: {strangers}"
            for name in strangers:
                (self.place.outside / name).unlink()
        for name in os.listdir(self.real):
            if name != "file":
                os.unlink(name, dir_fd=self.real)
        return found


@pytest.mark.timeout(SECONDS + 60)
@pytest.mark.req("FX-05", "FX-03")
def test_no_swap_lets_a_task_out(place: Place) -> None:
    arena = Arena(place)
    tries: tuple[Callable[[Place], None], ...] = (_copy_out, _copy_in, _copy_file, _keep)
    counted: Counter[tuple[str, str]] = Counter()
    with arena.swapping():
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for one in tries:
                try:
                    with ExitStack() as stack:
                        one(replace(place, stack=stack))
                    counted[one.__name__, "done"] += 1
                except RemitError:
                    counted[one.__name__, "refused"] += 1
                assert not (escape := arena.escaped()), f"{one.__name__}: {escape}"
    print(dict(counted))  # noqa: T201 - the figure is quoted
    for one in tries:
        assert counted[one.__name__, "done"] > 0, "the race was run in both states"
        assert counted[one.__name__, "refused"] > 0


@pytest.mark.timeout(SECONDS + 60)
def test_a_gate_that_resolves_first_and_opens_later_is_caught_by_this_race(place: Place) -> None:
    arena = Arena(place)
    caught = ""
    with arena.swapping():
        end = time.monotonic() + max(SECONDS, 60.0)
        while time.monotonic() < end and not caught:
            with suppress(OSError, ValueError):
                _resolve_then_open(place.here / "sub" / "file", place.here, place.there / "out")
            caught = arena.escaped()
    assert caught == "the secret was copied to out"


def _copy_out(place: Place) -> None:
    place.run("FILE_COPY", source_path=place.here / "sub" / "file", destination_path=place.there / "out")


def _copy_in(place: Place) -> None:
    place.run("FILE_COPY", source_path=place.here / "plain", destination_path=place.here / "sub" / "new")


def _copy_file(place: Place) -> None:
    place.run("FILE_COPY", source_path=place.here / "file", destination_path=place.there / "out")


def _keep(place: Place) -> None:
    """The secret may not enter the snapshots either."""
    reference = take_snapshot(locate(str(place.here / "file"), place.bases), place.snapshots, MAX_BYTES)
    descriptor, _ = open_snapshot(place.snapshots, reference)
    try:
        assert os.pread(descriptor, 100, 0) == b"inside"
    finally:
        os.close(descriptor)


def _resolve_then_open(source: Path, base: Path, destination: Path) -> None:
    """The hole, kept for comparison: what was checked is not what is opened."""
    if not Path(os.path.realpath(source)).is_relative_to(base):
        raise ValueError("outside")
    destination.write_bytes(source.read_bytes())


def test_the_swapper_can_swap(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    names = os.fsencode(tmp_path / "a"), os.fsencode(tmp_path / "b")
    assert ctypes.CDLL(None).renameat2(-100, names[0], -100, names[1], 2) == 0
    assert (tmp_path / "a").read_bytes() == b"b"
