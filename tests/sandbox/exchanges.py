"""Two names that change places, tried by a confined effect. Started as a program by whoever is to try it.

python -m tests.sandbox.exchanges FOLDER
"""

import json
import os
import sys
from pathlib import Path

from remit.effects.registry import PathUse
from remit.sandbox.orders import Build, FolderGrant
from tests.sandbox.hostile_sandbox import PLANS
from tests.sandbox.stepping_host import place, stepping_host, steps

BOTH = ("one", "two")


def make_files(root: Path) -> None:
    for name in BOTH:
        folder = root / name
        (folder / "folder").mkdir(parents=True)
        (folder / "a").write_text(f"a of {name}")
        (folder / "b").write_text(f"b of {name}")
        (folder / "link").symlink_to("a")


def run_trial(root: Path, build: Build = PLANS) -> dict[str, str]:
    """What each attempt came to: the name of the error, or nothing."""
    one, two = root / "one", root / "two"
    made = {"one": place(one, "a"), "two": place(two, "a")}
    attempts: dict[str, tuple[dict[str, FolderGrant], tuple[str, str], tuple[str, str]]] = {
        "in one folder": (made, ("one", "a"), ("one", "b")),
        "with nothing": (made, ("one", "a"), ("one", "missing")),
        "with a folder": (made, ("one", "a"), ("one", "folder")),
        "with a link": (made, ("one", "a"), ("one", "link")),
        "across two folders": (made, ("one", "a"), ("two", "a")),
        "with one outside": ({"one": made["one"]}, ("one", "a"), ("one", "../two/a")),
        "in a folder to read": ({"one": place(one, "a", PathUse.READ)}, ("one", "a"), ("one", "b")),
    }
    found = {}
    with stepping_host(root / "state", build=build) as host:
        for name, (places, first, second) in attempts.items():
            output = host.run(steps("exchange", places=places, first=first, second=second)).output
            found[name] = "" if output is None else output["error"]
    return found


def contents(root: Path) -> dict[str, str]:
    return {f"{folder} {name}": (root / folder / name).read_text() for folder in BOTH for name in ("a", "b")}


if __name__ == "__main__":
    make_files(Path(sys.argv[1]))
    told = {"uid": os.geteuid(), "found": run_trial(Path(sys.argv[1])), "contents": contents(Path(sys.argv[1]))}
    sys.stdout.write(json.dumps(told))
