"""The diff that people approve says exactly what changes: a reader of it alone arrives at the same bytes."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remit.effects.edits.lines import insert_lines
from remit.effects.edits.splice import Edited, Splice, spliced
from remit.effects.edits.text import replace_text
from remit.effects.plans.diff import MAX_PREVIEW, MAX_TEXT, Diff, diff_edit, diff_rename, diff_whole

HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def lines_of(content: bytes) -> list[str]:
    """With their ends."""
    *whole, last = content.decode().split("\n")
    return [line + "\n" for line in whole] + ([last] if last else [])


def applied(before: bytes, diff: Diff) -> bytes:
    """What the text of a diff makes of the old content. Fails where context, places or counts do not fit."""
    old, new = lines_of(before), list[str]()
    place = 0
    lines = diff.text.split("\n")[2:-1]
    while lines:
        header = HUNK.fullmatch(lines.pop(0))
        assert header is not None
        old_count, new_count = int(header[2] or "1"), int(header[4] or "1")
        start = int(header[1]) - bool(old_count)
        new += old[place:start]
        assert int(header[3]) - bool(new_count) == len(new)
        place, grown = start, len(new)
        while lines and not lines[0].startswith("@@"):
            mark, text = lines[0][0], lines.pop(0)[1:] + "\n"
            if lines and lines[0] == "\\ No newline at end of file":
                text = text[:-1]
                lines.pop(0)
            if mark in " -":
                assert old[place] == text
                place += 1
            if mark in " +":
                new.append(text)
        assert (place - start, len(new) - grown) == (old_count, new_count)
    return "".join(new + old[place:]).encode()


CONTENTS = st.lists(st.sampled_from(["a", "b", "", "c\r", "x\ry", "é"]), max_size=25).map("\n".join).map(str.encode)


@st.composite
def edits(draw: st.DrawFn) -> tuple[bytes, Edited]:
    before = draw(CONTENTS)
    splices, done = [], 0
    for place in sorted(draw(st.lists(st.integers(0, len(before)), max_size=8))):
        end = min(place + draw(st.integers(0, 4)), len(before))
        inside = [before[at : at + 1] for at in (place, end)]
        if place >= done and all(byte < b"\x80" or byte >= b"\xc0" for byte in inside):
            splices.append(Splice(place, end, draw(st.sampled_from([b"", b"Q", b"\n", b"R\n", b"\nS"]))))
            done = end
    return before, spliced(before, splices, "")


@settings(max_examples=300, deadline=None)
@given(edits())
def test_a_diff_leads_from_the_old_content_to_the_new_one(case: tuple[bytes, Edited]) -> None:
    before, edited = case
    for diff in (diff_edit("f", before, edited), diff_whole("f", before, edited.content)):
        assert bool(diff.text) == (before != edited.content)
        assert applied(before, diff) == edited.content
        marks = [line[:1] for line in diff.text.split("\n")[2:]]
        assert (diff.added, diff.removed) == (marks.count("+"), marks.count("-"))


def test_the_form_is_that_of_diff_u() -> None:
    before = b"".join(b"%d\n" % n for n in range(1, 11))
    diff = diff_edit("a/b.txt", before, replace_text(before, "5", "five", None), modes=(0o644, 0o755))
    assert diff.text == (
        "old mode 100644\nnew mode 100755\n--- a/a/b.txt\n+++ b/a/b.txt\n"
        "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
    )
    assert (diff.added, diff.removed, diff.left_out, diff.preview) == (1, 1, 0, diff.text)


def test_a_missing_line_end_is_shown() -> None:
    diff = diff_edit("f", b"a\nb", insert_lines(b"a\nb", 3, "c"))
    assert diff.text == (
        "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n a\n"
        "-b\n\\ No newline at end of file\n"
        "+b\n+c\n\\ No newline at end of file\n"
    )


def test_a_new_file_and_one_that_goes() -> None:
    assert diff_whole("f", None, b"a\n").text == "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n"
    assert diff_whole("f", b"a\nb\n", None).text == "--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\n-b\n"
    assert diff_rename("a", "b/c").text == "rename from a\nrename to b/c\n"


def test_changes_near_each_other_share_a_hunk_and_others_do_not() -> None:
    before = b"".join(b"%d\n" % n for n in range(100))
    near = diff_edit("f", before, spliced(before, [Splice(0, 1, b"x"), Splice(8, 9, b"y")], ""))
    far = diff_edit(
        "f", before, spliced(before, [Splice(0, 1, b"x"), Splice(len(before) - 3, len(before) - 1, b"y")], "")
    )
    assert (near.text.count("@@ -"), far.text.count("@@ -")) == (1, 2)


@pytest.mark.parametrize("content", [b"\0\1" * 9, b"a\xff" * 9, "<?php x(); ?>".encode("utf-16"), bytes(range(256))])
def test_bytes_that_are_no_text_are_only_counted(content: bytes) -> None:
    diff = diff_whole("f", b"abc", content)
    assert diff.text == f"Binary file, 3 -> {len(content)} bytes"
    assert (diff.added, diff.removed) == (0, 0)


@pytest.mark.parametrize("more", [b"# caf\xe9", b"\0", b"\xff\xfe", b"\x1b[2J"])
def test_a_byte_that_is_no_text_does_not_hide_the_text_around_it(more: bytes) -> None:
    diff = diff_whole("page.php", None, b"<?php system($x); ?>\n" + more + b"\n")
    assert "+<?php system($x); ?>\n" in diff.text
    assert (diff.added, diff.removed) == (2, 0)
    assert ("\\xe9" in diff.text) == (b"\xe9" in more), "and it can be told itself"


def test_what_is_left_out_is_counted() -> None:
    after = b"0123456789\n" * 100_000
    diff = diff_whole("f", None, after)
    assert len(diff.text) <= MAX_TEXT
    assert diff.added == 100_000
    assert diff.left_out + diff.text.count("\n+0") == 100_000
    short = diff_whole("f", None, after, full=False)
    assert (short.added, short.text) == (100_000, "")
    assert MAX_PREVIEW - 20 < len(short.preview) <= MAX_PREVIEW


def test_a_line_too_long_to_be_shown_is_counted_and_not_cut() -> None:
    """Half a secret no longer looks like one, so no mask would find it."""
    diff = diff_whole("f", b"a\n", b"x" * (MAX_TEXT + 1) + b"\nb\n")
    assert "xx" not in diff.text
    assert (diff.added, diff.left_out) == (2, 2)


@pytest.mark.parametrize(
    "before, after",
    [
        pytest.param(b"x" * 5_000_000, b"x" * 4_999_999 + b"y", id="one long line"),
        pytest.param(b"a\n" * 2_000_000, b"b\n" * 2_000_000, id="very many lines"),
        pytest.param(b"a\nb\n" * 990, b"b\na\n" * 990, id="few lines, all of them everywhere"),
    ],
)
def test_large_contents_are_compared_in_their_own_time(before: bytes, after: bytes) -> None:
    started = time.process_time()
    diff_whole("f", before, after)
    assert time.process_time() - started < 10


def test_the_diff_of_many_splices_on_one_long_line_takes_bounded_time() -> None:
    before = b"ab" * 2_000_000
    edited = replace_text(before, "a", "c", 9_999)
    started = time.process_time()
    assert diff_edit("f", before, edited).added == 1
    assert time.process_time() - started < 10
