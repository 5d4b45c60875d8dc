"""FILE_COPY: byte for byte, holes as holes, verified; in memory that does not grow with the file."""

import errno
import os
import resource
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remit.core.errors import EnvironmentFailureError, RefusedError
from remit.effects import file_copy as duplicate
from remit.effects.file_copy import copy_content
from remit.effects.tasks import file_steps as steps
from remit.effects.tasks.files import COPY
from tests.effects.tasks.task_folder import Place, world
from tests.support.small_disks import only_root


@pytest.mark.req("FX-07", "FX-09", "FX-10")
@pytest.mark.parametrize("size", [0, 1, 4096, duplicate.CHUNK, duplicate.SLICE + 1])
def test_a_copy_has_the_bytes_and_permissions_of_its_source_and_the_source_stays(place: Place, size: int) -> None:
    content = os.urandom(size)
    source, target = place.file("a", content, 0o750), place.there / "b"
    output = place.run("FILE_COPY", source_path=source, destination_path=target, reversible=False)
    assert source.read_bytes() == target.read_bytes() == content
    assert target.stat().st_mode & 0o7777 == 0o750
    assert output["undo_metadata"] == {}, "none is made up"
    assert output["result_summary"] == {"source": str(source), "destination": str(target)}


@pytest.mark.req("EI-13")
def test_a_reversible_copy_says_what_it_made(place: Place) -> None:
    source, target = place.file("a", b"abc"), place.there / "b"
    output = place.run("FILE_COPY", source_path=source, destination_path=target, reversible=True)
    digest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert output["undo_metadata"] == {"created_path": str(target), "sha256": digest}


@only_root
@pytest.mark.req("FX-07")
def test_fifty_megabytes_are_copied_across_filesystems_with_progress_and_little_memory(two_disks: Place) -> None:
    content = os.urandom(1 << 20) * 50
    source, target = two_disks.file("a", content), two_disks.there / "b"
    work = two_disks.prepare("FILE_COPY", source_path=source, destination_path=target)
    said: list[tuple[int, int]] = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    COPY.run(work._replace(progress=lambda done, total: said.append((done, total))))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert target.read_bytes() == content
    assert grown < 16 << 10, "in KiB"
    assert 3 <= len(said) <= 60
    assert said == sorted(said)
    assert {total for _, total in said} == {50 << 20}


@pytest.mark.req("FX-07")
@pytest.mark.parametrize("in_kernel", [True, False])
def test_a_hole_stays_a_hole(place: Place, monkeypatch: pytest.MonkeyPatch, in_kernel: bool) -> None:  # noqa: FBT001
    if not in_kernel:
        _forbid_kernel_copy(monkeypatch)
    source, target = place.here / "a", place.there / "b"
    with source.open("wb") as stream:
        stream.truncate(40 << 20)
        stream.seek(20 << 20)
        stream.write(b"island")
    place.run("FILE_COPY", source_path=source, destination_path=target)
    assert target.read_bytes() == source.read_bytes()
    assert target.stat().st_blocks * 512 < 1 << 20


@given(parts=st.lists(st.tuples(st.booleans(), st.integers(1, 20_000)), max_size=6), in_kernel=st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_pattern_of_data_and_holes_is_copied(
    place: Place, parts: list[tuple[bool, int]], *, in_kernel: bool
) -> None:
    source, target = place.here / "pattern", place.here / "copy"
    with pytest.MonkeyPatch.context() as patch:
        if not in_kernel:
            _forbid_kernel_copy(patch)
        with source.open("w+b") as old, target.open("w+b") as new:
            for data, size in parts:
                if data:
                    old.write(os.urandom(size))
                else:
                    old.seek(size, os.SEEK_CUR)
            old.truncate()
            old.flush()
            size = os.fstat(old.fileno()).st_size
            duplicate.copy_content(old.fileno(), new.fileno(), size)
            assert duplicate.sha256_of(old.fileno()) == duplicate.sha256_of(new.fileno())
    assert source.read_bytes() == target.read_bytes()


@pytest.mark.req("FX-07")
def test_a_copy_that_reads_back_otherwise_is_removed_and_reported(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = place.file("a", b"x" * 100), place.there / "b"

    def lie(source: int, target: int, size: int, _progress: object) -> None:
        os.pwrite(target, b"x" * (size - 1) + b"y", 0)

    monkeypatch.setattr("remit.effects.tasks.file_steps.copy_content", lie)
    with pytest.raises(EnvironmentFailureError, match="does not have the bytes of its source"):
        place.run("FILE_COPY", source_path=source, destination_path=target)
    assert [*world(place.here, place.there)] == [str(source)]


@pytest.mark.req("FX-07")
@pytest.mark.parametrize("how", ["longer", "shorter", "other bytes"])
def test_a_source_that_changes_while_it_is_copied_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    source, target = place.file("a", b"x" * 100_000), place.there / "b"
    work = place.prepare("FILE_COPY", source_path=source, destination_path=target)

    def change(*args: Any) -> None:
        match how:
            case "longer":
                with source.open("ab") as stream:
                    stream.write(b"more")
            case "shorter":
                os.truncate(source, 10)
            case _:
                with source.open("r+b") as stream:
                    stream.write(b"y")
        copy_content(*args)

    monkeypatch.setattr(steps, "copy_content", change)
    with pytest.raises(RefusedError):
        COPY.run(work)
    assert [*world(place.here, place.there)] == [str(source)]


@pytest.mark.req("FX-07")
def test_a_copy_never_carries_the_right_to_run_as_another_user(place: Place) -> None:
    source, target = place.file("a", mode=0o6755), place.there / "b"
    place.run("FILE_COPY", source_path=source, destination_path=target)
    assert target.stat().st_mode & 0o7777 == 0o755


@pytest.mark.req("FX-03")
def test_a_destination_that_appears_while_the_bytes_are_copied_stays(place: Place) -> None:
    source, target = place.file("a", b"mine"), place.there / "b"
    work = place.prepare("FILE_COPY", source_path=source, destination_path=target)

    def appear(_fact: object) -> None:
        target.write_bytes(b"theirs")

    with pytest.raises(RefusedError, match="never overwritten"):
        COPY.run(work._replace(note=appear))
    assert (source.read_bytes(), target.read_bytes()) == (b"mine", b"theirs")
    assert [*place.there.iterdir()] == [target]


def _forbid_kernel_copy(patch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EXDEV, "not between these")

    patch.setattr(os, "copy_file_range", refuse)
