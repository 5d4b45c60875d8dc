"""The paths of a plan, relative to the root: one spelling each, and none that anybody could read as a way out."""

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.errors import Reason, RefusedError
from remit.fs.paths import MAX_PATH_BYTES, locate, locate_below

ROOT = "/srv/project"


@pytest.mark.req("PX-29")
@pytest.mark.parametrize(
    "path, parents, name",
    [
        ("a", (), "a"),
        ("sub/deep/a.txt", ("sub", "deep"), "a.txt"),
        ("./sub/./a", ("sub",), "a"),
        pytest.param("--help", (), "--help", id="path-071"),
        pytest.param("sub/..foo", ("sub",), "..foo", id="path-077"),
        pytest.param("sub/...", ("sub",), "...", id="path-078"),
        pytest.param("sub/a..b", ("sub",), "a..b", id="path-079"),
        pytest.param("sub/文書.txt", ("sub",), "文書.txt", id="path-083"),
        pytest.param("a" * 255, (), "a" * 255, id="path-085"),
        pytest.param("sub/C:\\x", ("sub",), "C:\\x", id="path-086"),
        pytest.param("sub//ok.txt", ("sub",), "ok.txt", id="path-089"),
        pytest.param("sub/a\nb", ("sub",), "a\nb", id="path-023"),
        pytest.param("sub/\x1b[2J\x1b[31mok", ("sub",), "\x1b[2J\x1b[31mok", id="path-024"),
        pytest.param("protected./.env", ("protected.",), ".env", id="path-031"),
        ("sub/~", ("sub",), "~"),
        ("~backup", (), "~backup"),
        ("a\\..b", (), "a\\..b"),
        ("…", (), "…"),
    ],
)
def test_a_path_below_the_root_is_taken_apart(path: str, parents: tuple[str, ...], name: str) -> None:
    found = locate_below(ROOT, path)
    assert found == (ROOT, parents, name)
    assert found.path == "/".join((ROOT, *parents, name))


@pytest.mark.req("PX-29")
@pytest.mark.parametrize(
    "path, why",
    [
        pytest.param("../ws-secret/secret.txt", r"`\.\.`", id="path-002"),
        pytest.param(f"{ROOT}/../outside/secret.txt", "absolute", id="path-009"),
        pytest.param("./sub/./.././../outside/secret.txt", r"`\.\.`", id="path-010"),
        pytest.param("sub/..", r"`\.\.`", id="path-011"),
        pytest.param("", "names no file", id="path-013"),
        pytest.param("~/.ssh/authorized_keys", "`~`", id="path-014"),
        pytest.param(
            b"..\xc0\xaf..\xc0\xafoutside/secret.txt".decode("utf-8", "surrogateescape"),
            "not valid Unicode",
            id="path-018",
        ),
        pytest.param("..\\outside\\secret.txt", "backslash", id="path-019"),
        pytest.param("sub\\..\\..\\secret.txt", "backslash", id="path-019-within"),
        pytest.param("．．／outside／secret.txt", "other characters", id="path-020"),
        pytest.param("．．", "other characters", id="path-020-dots"),
        pytest.param("‥", "other characters", id="path-020-leader"),
        pytest.param("..＼outside", "other characters", id="path-020-backslash"),
        pytest.param("sub/ok.txt\0.png", "NUL", id="path-022"),
        pytest.param("a" * 256, "more than 255 bytes", id="path-032"),
        pytest.param("d/" * 2500 + "x", "more than 4095 bytes", id="path-033"),
        pytest.param("sub/\ud800x", "not valid Unicode", id="path-035"),
        pytest.param(str(Path("/proc/self") / "root" / "etc/passwd"), "absolute", id="path-045"),
        pytest.param("/proc/self/cwd/../outside/secret.txt", "absolute", id="path-046"),
        pytest.param("/dev/fd/3", "absolute", id="path-048"),
        pytest.param("/proc/self/mem", "absolute", id="path-050"),
        pytest.param("sub/../protected/.env", r"`\.\.`", id="path-060"),
        pytest.param("../**", r"`\.\.`", id="path-070"),
        pytest.param("/state/keys/issuer.pem", "absolute", id="path-073"),
        pytest.param("/state/checkpoints/x", "absolute", id="path-074"),
        (".", "names no file"),
        ("./", "names no file"),
        ("sub/", "ends in a slash"),
        ("sub/.", "ends in a slash"),
        ("~", "`~`"),
        ("./~/x", "`~`"),
        ("//etc/passwd", "absolute"),
        (f"{ROOT}/a", "absolute"),
        (unicodedata.normalize("NFD", "é"), "normal form C"),
    ],
)
def test_any_other_path_of_a_plan_is_refused(path: str, why: str) -> None:
    with pytest.raises(RefusedError, match=why) as caught:
        locate_below(ROOT, path)
    assert caught.value.reason is Reason.PATH_REFUSED
    assert caught.value.next_step


def test_the_bytes_of_the_root_count_too() -> None:
    most = MAX_PATH_BYTES - len(ROOT) - 1
    longest = "d/" * (most // 2 - 1)
    longest += "d" * (most - len(longest))
    assert len(locate_below(ROOT, longest).path) == MAX_PATH_BYTES
    with pytest.raises(RefusedError, match="more than 4095 bytes"):
        locate_below(ROOT, longest + "d")


COMPONENTS = st.sampled_from(["a", "..", ".", "", "...", "~", "..\\x", "b..", "．．", "a／b", "é", " "])


@pytest.mark.req("PX-29")
@given(st.lists(COMPONENTS, max_size=8).map("/".join))
def test_no_spelling_leads_out_of_the_root(path: str) -> None:
    try:
        found = locate_below(ROOT, path)
    except RefusedError:
        return
    assert found.path == os.path.normpath(f"{ROOT}/{path}")
    assert locate(found.path, [ROOT]) == found
    # Nor does it once somebody has folded its characters, or taken a backslash for a slash.
    folded = unicodedata.normalize("NFKC", path).replace("\\", "/")
    assert os.path.normpath(f"{ROOT}/{folded}").startswith(f"{ROOT}/")


@given(st.text(max_size=40))
def test_what_is_taken_has_one_spelling_and_is_found_again(text: str) -> None:
    try:
        found = locate_below(ROOT, text)
    except RefusedError:
        return
    assert locate_below(ROOT, "/".join((*found.parents, found.name))) == found
