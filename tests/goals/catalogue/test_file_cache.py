"""Files that decisions go by are read again whenever they could be others, and not otherwise."""

import os
from pathlib import Path

import pytest

from remit.core.errors import RefusedError, RemitError
from remit.goals.binding import file_cache as seen_files
from remit.goals.binding.file_cache import FileCache
from remit.plans.engines.input_files import read_below

pytestmark = pytest.mark.req("AC-21")

NAME = "rules.cedar"


class Reader:
    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.reads = 0
        self.files = FileCache()
        self._real = read_below
        monkeypatch.setattr(seen_files, "read_below", self._counted)

    def _counted(self, root: str, path: str, most: int) -> tuple[bytes, str]:
        self.reads += 1
        return self._real(root, path, most)

    def text(self) -> bytes:
        return self.files.read(str(self.root), NAME, 1_000)[0]


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    (tmp_path / NAME).write_bytes(b"permit")
    return Reader(tmp_path, monkeypatch)


@pytest.fixture
def rested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file has rested for long enough."""
    monkeypatch.setattr(seen_files, "RESTED_SECONDS", -1.0)


@pytest.mark.usefixtures("rested")
def test_a_file_that_stays_the_same_is_read_once(reader: Reader) -> None:
    assert {reader.text() for _ in range(5)} == {b"permit"}
    assert reader.reads == 1


def test_one_that_was_changed_a_moment_ago_is_read_every_time(reader: Reader) -> None:
    """Two changes within one tick of the clock have the same time."""
    assert [reader.text(), reader.text()] == [b"permit"] * 2
    assert reader.reads == 2


@pytest.mark.usefixtures("rested")
def test_a_change_of_the_same_length_is_noticed_though_its_time_was_set_back(reader: Reader) -> None:
    file = reader.root / NAME
    assert reader.text() == b"permit"
    before = file.stat()
    while file.stat().st_ctime_ns == before.st_ctime_ns:  # until the file system's clock has ticked
        with file.open("r+b") as opened:
            opened.write(b"forbid")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert reader.text() == b"forbid"
    other = reader.root / "other"
    other.write_bytes(b"denied")
    other.rename(file)
    assert reader.text() == b"denied"


@pytest.mark.usefixtures("rested")
def test_one_that_is_gone_or_became_a_link_is_refused_though_it_was_read(reader: Reader, tmp_path: Path) -> None:
    file = reader.root / NAME
    reader.text()
    file.rename(tmp_path / "moved")
    with pytest.raises(RemitError):
        reader.text()
    (tmp_path / "elsewhere").write_bytes(b"permit")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefusedError):
        reader.text()


@pytest.mark.usefixtures("rested")
def test_a_folder_that_becomes_a_link_is_not_followed(tmp_path: Path) -> None:
    """Not even to the very file that it led to before."""
    (tmp_path / "root/policies").mkdir(parents=True)
    (tmp_path / f"root/policies/{NAME}").write_bytes(b"permit")
    files, root = FileCache(), str(tmp_path / "root")
    assert files.read(root, f"policies/{NAME}", 1_000)[0] == b"permit"
    (tmp_path / "root/policies").rename(tmp_path / "outside")
    (tmp_path / "root/policies").symlink_to(tmp_path / "outside")
    with pytest.raises(RefusedError):
        files.read(root, f"policies/{NAME}", 1_000)


@pytest.mark.usefixtures("rested")
def test_everything_is_read_again_after_a_few_seconds(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is mapped into memory may change without its times."""
    now = [1_000.0]
    monkeypatch.setattr("remit.goals.binding.file_cache.time.monotonic", lambda: now[0])
    for seconds, reads in (
        (0.0, 1),
        (seen_files.CACHE_SECONDS_PER_FILE - 0.1, 1),
        (seen_files.CACHE_SECONDS_PER_FILE, 2),
    ):
        now[0] = 1_000.0 + seconds
        reader.text()
        assert reader.reads == reads


@pytest.mark.usefixtures("rested")
def test_one_that_is_changed_while_it_is_read_is_refused_and_not_kept(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(root: str, path: str, most: int) -> tuple[bytes, str]:
        found = read_below(root, path, most)
        (reader.root / NAME).write_bytes(b"forbid everything")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(seen_files, "read_below", slow)
        with pytest.raises(RemitError, match="changed"):
            reader.text()
    assert reader.text() == b"forbid everything"
