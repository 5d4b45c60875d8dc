"""Policy files are read below the root, whole, and never through a link."""

import os
from pathlib import Path

import pytest

from remit.contracts.goals.access import MAX_FILE_BYTES
from remit.core.errors import Reason, RefusedError, RemitError
from remit.goals.access.policy_files import read_policy_files
from tests.goals.access.rules import ALL, access, question

pytestmark = pytest.mark.req("AC-06")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root/policies").mkdir(parents=True)
    (tmp_path / "root/policies/access.cedar").write_text(ALL)
    (tmp_path / "outside.cedar").write_text(ALL)
    return tmp_path / "root"


def test_the_files_come_by_their_plain_names(root: Path) -> None:
    (root / "more.cedar").write_text("// é")
    found = read_policy_files(root, ["./policies//access.cedar", "more.cedar"])
    assert found == {"policies/access.cedar": ALL, "more.cedar": "// é"}
    assert access(files=found).decide(question()).verdict == "ALLOWED"
    assert read_policy_files(root, []) == {}


@pytest.mark.parametrize(
    "name", ["absent.cedar", "policies", "../outside.cedar", "policies/../../outside.cedar", "/etc/hosts"]
)
def test_what_is_not_a_file_below_the_root_is_refused(root: Path, name: str) -> None:
    with pytest.raises(RefusedError):
        read_policy_files(root, ["policies/access.cedar", name])


def test_links_of_either_kind_are_refused(root: Path) -> None:
    (root / "soft.cedar").symlink_to("policies/access.cedar")
    (root / "folder").symlink_to("policies")
    os.link(root.parent / "outside.cedar", root / "hard.cedar")
    for name in ("soft.cedar", "folder/access.cedar", "hard.cedar"):
        with pytest.raises(RefusedError) as caught:
            read_policy_files(root, [name])
        assert caught.value.reason is Reason.PATH_REFUSED


def test_a_file_too_large_or_not_text_is_refused(root: Path) -> None:
    (root / "large.cedar").write_bytes(b"/" * (MAX_FILE_BYTES + 1))
    (root / "latin.cedar").write_bytes(b"// \xe9")
    for name in ("large.cedar", "latin.cedar"):
        with pytest.raises(RemitError) as caught:
            read_policy_files(root, [name])
        assert name in caught.value.where
    with pytest.raises(RefusedError, match="more than 100"):
        read_policy_files(root, [f"{n}.cedar" for n in range(101)])
