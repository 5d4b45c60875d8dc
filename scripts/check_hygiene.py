"""Checks that no tracked file names a package registry, an index option, or a folder of one machine.

Pins have only versions and hashes, so an install works with any mirror. The host names in this file are built from
pieces, so that the file passes its own check. Limit: the check reads text, not archives or images.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

_HOSTS: Final = (
    ("pypi", "org"),
    ("python" + "hosted", "org"),
    ("anaconda", "org"),
    ("npmjs", "org"),
    ("npmjs", "com"),
    ("yarnpkg", "com"),
    ("crates", "io"),
    ("rubygems", "org"),
    ("maven", "org"),
    ("docker", "io"),
    ("ghcr", "io"),
    ("quay", "io"),
    ("pkg", "dev"),
    ("deb", "debian", "org"),
)
_INDEX_OPTIONS: Final = ("index-url", "extra-index-url", "find-links", "trusted-host")
# Names of users in examples. They are no real users of a machine.
_EXAMPLE_HOMES: Final = ("ada", "agent", "alice", "bob", "user", "you")


def machine_patterns(root: Path, home: Path) -> dict[str, re.Pattern[str]]:
    """Return the forbidden patterns, by the name in the report."""
    hosts = "|".join(re.escape(".".join(pieces)) for pieces in _HOSTS)
    options = "|".join(_INDEX_OPTIONS)
    examples = "|".join(_EXAMPLE_HOMES)
    # The name of a folder directly below / is too common to search for.
    places = [re.escape(str(place)) for place in (root, home) if len(place.parts) > 2]
    places += [rf"/(?:home|Users)/(?!(?:{examples})\b)[a-z_][\w.-]*/", r"/ro{2}t/[\w.]"]
    return {
        "a package registry": re.compile(rf"(?<![\w-])(?:{hosts})(?![\w-])", re.IGNORECASE),
        "an index option": re.compile(rf"^\s*--(?:{options})\b"),
        "a folder of one machine": re.compile(rf"(?<![\w.])(?:{'|'.join(places)})"),
    }


def find_violations(root: Path, names: list[str], patterns: dict[str, re.Pattern[str]]) -> Iterator[str]:
    for name in names:
        path = root / name
        if path.is_symlink() and path.readlink().is_absolute():
            yield f"{name}:1: is a link to a place of one machine"
        if path.is_symlink() or not path.is_file():
            continue
        for number, line in enumerate(path.read_bytes().decode("utf-8", errors="replace").splitlines(), start=1):
            for what, pattern in patterns.items():
                if pattern.search(line):
                    yield f"{name}:{number}: names {what}"


def tracked_files(root: Path) -> list[str]:
    """Return tracked files and new files. A violation is easier to fix before it is committed."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, check=True).stdout
    return sorted({name.decode("utf-8", errors="surrogateescape") for name in listed.split(b"\0") if name})


def main() -> int:
    names = tracked_files(ROOT)
    found = list(find_violations(ROOT, names, machine_patterns(ROOT, Path.home())))
    for line in found:
        sys.stderr.write(f"hygiene: {line}\n")
    sys.stdout.write(f"hygiene: {len(found)} violations in {len(names)} files\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
