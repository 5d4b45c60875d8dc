"""Paths as text: which are taken, which are refused, and that no spelling leads out."""

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.errors import Reason, RefusedError
from remit.fs.paths import locate, require_bases
from tests.support.small_disks import only_root, small_disk

BASES = ("/srv/project", "/srv/project/inner", "/data")


@pytest.mark.req("FX-02", "FX-04")
def test_a_path_beneath_an_allowed_directory_is_taken_apart(subtests: pytest.Subtests) -> None:
    for path, base, parents, name in [
        ("/data/a", "/data", (), "a"),
        ("/data/x/y/a", "/data", ("x", "y"), "a"),
        ("//data//x/./a", "/data", ("x",), "a"),
        ("/./data/a", "/data", (), "a"),
        ("/srv/project/inner/a", "/srv/project/inner", (), "a"),
        ("/srv/project/innermost", "/srv/project", (), "innermost"),
        ("/data/..foo", "/data", (), "..foo"),
        ("/data/...", "/data", (), "..."),
        ("/data/a..b", "/data", (), "a..b"),
        ("/data/文書.txt", "/data", (), "文書.txt"),
        ("/data/" + "a" * 255, "/data", (), "a" * 255),
        ("/data/C:\\x", "/data", (), "C:\\x"),
        ("/data/..\\x", "/data", (), "..\\x"),
        ("/data/--help", "/data", (), "--help"),
        ("/data/~", "/data", (), "~"),
        ("/data/a\nb", "/data", (), "a\nb"),
        ("/data/．．／x", "/data", (), "．．／x"),
    ]:
        with subtests.test(ascii(path)):
            assert locate(path, BASES) == (base, parents, name)


@pytest.mark.req("FX-02", "FX-04", "FX-05")
def test_any_other_path_is_refused_with_the_reason_and_the_next_step(subtests: pytest.Subtests) -> None:
    for path, why in [
        ("", "not absolute"),
        ("data/a", "not absolute"),
        ("~/a", "not absolute"),
        ("/data", "allowed directory itself"),
        ("/data/", "ends in a slash"),
        ("/data/x/", "ends in a slash"),
        ("/data/x/.", "ends in a slash or a dot"),
        ("/srv/project/inner", "allowed directory itself"),
        ("/", "ends in a slash"),
        ("/data-evil/a", "outside of every"),
        ("/dat", "outside of every"),
        ("/etc/passwd", "outside of every"),
        ("/srv/a", "outside of every"),
        ("/data/../etc/passwd", r"`\.\.`"),
        ("/data/x/../a", r"`\.\.`"),
        ("/data/..", r"`\.\."),
        ("/data/a\0b", "NUL"),
        ("/data/\ud800", "not valid Unicode"),
        ("/data/" + "a" * 256, "more than 255 bytes"),
        ("/data/" + "é" * 128, "more than 255 bytes"),
        ("/data/" + "d/" * 2100 + "x", "more than 4095 bytes"),
        ("/data/" + unicodedata.normalize("NFD", "é"), "normal form C"),
    ]:
        with subtests.test(ascii(path)):
            with pytest.raises(RefusedError, match=why) as caught:
                locate(path, BASES)
            assert caught.value.reason is Reason.PATH_REFUSED
            assert caught.value.next_step


@pytest.mark.req("FX-04")
def test_without_allowed_directories_every_path_is_refused() -> None:
    with pytest.raises(RefusedError, match="outside of every") as caught:
        locate("/data/a", ())
    assert "base_directories" in caught.value.next_step


COMPONENTS = st.sampled_from(["a", "..", ".", "", "...", "..a", "data", "work", "project", "inner", "data-evil", " "])


@pytest.mark.req("FX-04", "FX-05")
@given(st.lists(COMPONENTS, max_size=8).map(lambda parts: "/" + "/".join(parts)))
def test_no_spelling_leads_out_of_the_allowed_directories(path: str) -> None:
    try:
        found = locate(path, BASES)
    except RefusedError:
        return
    # Without a link in it, the plain meaning of a path is what normpath makes of it.
    assert found.path == os.path.normpath(path).replace("//", "/")
    assert found.base in BASES
    assert ".." not in path.split("/")
    assert found.name
    assert locate(found.path, BASES) == found


@pytest.mark.req("FX-02")
@given(st.text(max_size=60))
def test_whatever_is_taken_is_valid_unicode_in_one_spelling(text: str) -> None:
    try:
        found = locate("/data/" + text, BASES)
    except RefusedError:
        return
    assert unicodedata.is_normalized("NFC", found.path)
    assert all(part not in {"", ".", ".."} and "/" not in part for part in (*found.parents, found.name))


@pytest.fixture
def state(tmp_path: Path) -> Path:
    place = tmp_path / "state" / "workspace"
    place.mkdir(parents=True)
    return place


@pytest.mark.req("FX-04")
def test_a_plain_directory_is_allowed_in_its_one_spelling(tmp_path: Path, state: Path) -> None:
    (tmp_path / "base").mkdir()
    assert require_bases([f"/{tmp_path}//base/./"], state) == (str(tmp_path / "base"),)
    assert require_bases([], state) == ()


@pytest.mark.req("FX-04")
@pytest.mark.parametrize("base", ["/", "//", "/proc", "/proc/self", "/sys/kernel", "/dev", "/dev/pts", "relative", ""])
def test_some_directories_are_never_allowed(state: Path, base: str) -> None:
    with pytest.raises(RefusedError):
        require_bases([base], state)


@pytest.mark.req("FX-04", "FX-05")
def test_a_base_behind_a_link_is_refused_with_its_real_path(tmp_path: Path, state: Path) -> None:
    (tmp_path / "real" / "base").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(RefusedError, match="symbolic link") as caught:
        require_bases([str(tmp_path / "link" / "base")], state)
    assert str(tmp_path / "real" / "base") in caught.value.next_step


@pytest.mark.req("FX-04")
@pytest.mark.parametrize("kind", ["missing", "file"])
def test_a_base_that_is_no_directory_is_refused(tmp_path: Path, state: Path, kind: str) -> None:
    if kind == "file":
        (tmp_path / "base").write_bytes(b"")
    with pytest.raises(RefusedError, match="does not exist, or is not one"):
        require_bases([str(tmp_path / "base")], state)


@pytest.mark.req("FX-04")
@pytest.mark.parametrize("where", ["state", "state/workspace", "state/workspace/keys", "."])
def test_a_base_that_overlaps_the_state_is_refused_in_both_directions(tmp_path: Path, state: Path, where: str) -> None:
    (state / "keys").mkdir()
    with pytest.raises(RefusedError) as caught:
        require_bases([str(tmp_path / where)], state)
    assert caught.value.reason is Reason.STATE_UNSAFE


@only_root
@pytest.mark.req("FX-04")
def test_a_second_mount_of_the_state_is_seen_through(tmp_path: Path, state: Path) -> None:
    with small_disk(tmp_path / "base", "1m") as base:
        assert require_bases([str(base)], state)
        os.system(f"mount --bind '{state.parent}' '{base}'")  # noqa: S605 - a path of the test's own
        try:
            with pytest.raises(RefusedError, match="overlaps the state directory"):
                require_bases([str(base)], state)
        finally:
            os.system(f"umount '{base}'")  # noqa: S605 - as above
