"""`make compat`: what users meet, against an earlier version; and a workspace of that version, opened by this one.

Usage: python -m tests.compat [--against COMMIT | --list]. Without an option the differences from 80292a0 must be the
reviewed ones, in differences.toml. With --against there must be none. --list prints the differences from 80292a0.
Exit code 1 if something differs, 2 if the commit is not in this history.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.compat.surfaces import Review, compare, differences, read_surfaces, reviewed
from tests.compat.upgrade import check_upgrade, make_with
from tests.compat.versions import BEFORE, ROOT, NoSuchVersionError, source_of


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.compat", description="Users notice nothing.")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--against", metavar="COMMIT", help="a version from which nothing may differ")
    choice.add_argument("--list", action="store_true", help=f"print what differs from {BEFORE}")
    given = parser.parse_args()
    commit = given.against or BEFORE
    with tempfile.TemporaryDirectory(prefix="remit-compat-") as name:
        folder = Path(name).resolve()
        try:
            source = source_of(commit, folder / "version")
        except NoSuchVersionError as problem:
            sys.stderr.write(f"compat: {problem}\n")
            return 2
        before = read_surfaces(source)
        found = differences(before, read_surfaces(ROOT / "src"))
        if given.list:
            sys.stdout.write("".join(f"{line}\n" for line in found))
            return 0
        known = {} if given.against else reviewed()
        problems = _said(compare(found, known))
        sizes = ", ".join(f"{surface} {len(entries)}" for surface, entries in before.items())
        sys.stdout.write(f"compared with {commit}: {sizes}\n{len(found)} differences, {len(known)} reviewed\n")
        problems += check_upgrade(make_with(source, folder / "made"), approvals_hold=given.against is not None)
    for line in problems:
        sys.stderr.write(f"compat: {line}\n")
    sys.stdout.write(f"compat: {'FAILED' if problems else 'ok'}\n")
    return 1 if problems else 0


def _said(review: Review) -> list[str]:
    return [
        *(f"this differs and is not in the reviewed list: {line}" for line in review.unexpected),
        *(f"this is in the reviewed list and does not differ: {line}" for line in review.missing),
    ]


if __name__ == "__main__":
    sys.exit(main())
