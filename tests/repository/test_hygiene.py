"""The hygiene check can fail: a registry, an index option or a private folder, planted in a file, is found."""

from pathlib import Path

import pytest

from scripts.check_hygiene import find_violations, machine_patterns

PATTERNS = machine_patterns(Path("/srv/build/checkout"), Path("/srv/people/sam"))


def _found(tmp_path: Path, text: str) -> list[str]:
    (tmp_path / "file.txt").write_text(text)
    return list(find_violations(tmp_path, ["file.txt"], PATTERNS))


@pytest.mark.parametrize(
    "pieces, what",
    [
        (("see https://py", "pi.org/project/x"), "a package registry"),
        (("https://files.python", "hosted.org/packages/x.whl"), "a package registry"),
        (("FROM gh", "cr.io/x/y"), "a package registry"),
        (("--extra-", "index-url https://mirror.example"), "an index option"),
        (("cd /ro", "ot/.venv"), "a folder of one machine"),
        (("cd /home/", "carol/remit"), "a folder of one machine"),
        (("cd /srv/build/", "checkout/src"), "a folder of one machine"),
        (("cd /srv/people/", "sam"), "a folder of one machine"),
    ],
)
def test_a_planted_violation_is_found_with_its_line(tmp_path: Path, pieces: tuple[str, ...], what: str) -> None:
    assert _found(tmp_path, "first line\n" + "".join(pieces) + "\n") == [f"file.txt:2: names {what}"]


@pytest.mark.parametrize(
    "innocent", ["/home/alice/notes.txt is an example", "the index-url option", "the /root- prefix", "copy.org"]
)
def test_innocent_text_passes(tmp_path: Path, innocent: str) -> None:
    assert _found(tmp_path, innocent) == []


def test_a_link_to_a_place_of_one_machine_is_found_and_a_relative_one_passes(tmp_path: Path) -> None:
    (tmp_path / "here").symlink_to("file.txt")
    (tmp_path / "there").symlink_to("/srv/elsewhere")
    found = list(find_violations(tmp_path, ["here", "there"], PATTERNS))
    assert found == ["there:1: is a link to a place of one machine"]
