"""Runs the history of a git repository as plans: each commit is applied, rolled back, and applied again.

After each of these steps, the bytes and modes of the files are compared with those in git. Commits that a plan cannot
express are counted by their reason, and this program then sets the tree itself. The exit code is 1 if anything differs.
`bench/README.md` has the results.
"""

import argparse
import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from figures import progress
from remit.contracts.plans.outcome import PlanRefusal
from remit.contracts.plans.plan import Plan
from remit.core.errors import RefusedError
from remit.core.ids import system_clock
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace

FILE, PROGRAM, LINK, MODULE = "100644", "100755", "120000", "160000"
MODES: Final = {FILE: "0644", PROGRAM: "0755"}
NONE: Final = "000000"
MOST_FILES: Final = 100
OURS: Final = ("agent_outputs", "agent_logs")


class Blob(NamedTuple):
    mode: str
    name: str


class Change(NamedTuple):
    """One line of `git diff-tree --raw`. `path` is the old name of what was renamed."""

    kind: str
    old: Blob
    new: Blob
    path: str
    new_path: str


class Inexpressible(Exception):
    """One plan cannot express this commit. The text is the reason that it is counted under."""


# --- reading git -----------------------------------------------------------------------------------------------------


class Repository:
    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._blobs = subprocess.Popen(
            ["git", "-C", self._path, "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def close(self) -> None:
        assert self._blobs.stdin is not None
        self._blobs.stdin.close()
        self._blobs.wait(30)

    def _git(self, *arguments: str) -> bytes:
        return subprocess.run(["git", "-C", self._path, *arguments], stdout=subprocess.PIPE, check=True).stdout

    def commits(self) -> list[str]:
        """The main line, the oldest first."""
        return self._git("rev-list", "--first-parent", "--reverse", "HEAD").decode().split()

    def tree(self, commit: str | None) -> dict[str, Blob]:
        if commit is None:
            return {}
        found = {}
        for entry in self._git("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0"):
            if entry:
                about, _, path = entry.partition(b"\t")
                mode, _, name = about.decode().split()
                found[_text(path)] = Blob(mode, name)
        return found

    def changes(self, parent: str | None, commit: str) -> list[Change]:
        between = ("--root", commit) if parent is None else (parent, commit)
        raw = self._git("diff-tree", "-r", "--raw", "-z", "--no-commit-id", "--no-abbrev", "-M100%", *between)
        return list(_parse_changes(raw))

    def content(self, name: str) -> bytes:
        assert self._blobs.stdin is not None
        assert self._blobs.stdout is not None
        self._blobs.stdin.write(f"{name}\n".encode())
        self._blobs.stdin.flush()
        size = int(self._blobs.stdout.readline().split()[2])
        return self._blobs.stdout.read(size + 1)[:size]


def _parse_changes(raw: bytes) -> Iterator[Change]:
    fields = iter(raw.split(b"\0"))
    for about in fields:
        if not about:
            return
        old_mode, new_mode, old_name, new_name, kind = about.decode().removeprefix(":").split()
        path = _text(next(fields))
        new_path = _text(next(fields)) if kind[0] == "R" else ""
        yield Change(kind[0], Blob(old_mode, old_name), Blob(new_mode, new_name), path, new_path)


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


# --- making a plan ---------------------------------------------------------------------------------------------------


def make_plan(repository: Repository, commit: str, changes: list[Change], before: dict[str, Blob]) -> bytes:
    """Removals first, then changes, then new files, so that a name is free before it is needed."""
    _require_expressible(changes, before)
    removals, modifications, creations = [], [], []
    for change in changes:
        match change.kind:
            case "D":
                removals.append(_action("FILE_DELETE", change.path, {"type": "delete"}))
            case "R" if change.old.mode == change.new.mode:
                removals.append(_action("FILE_RENAME", change.path, {"type": "rename", "new_path": change.new_path}))
            case "R":
                removals.append(_action("FILE_DELETE", change.path, {"type": "delete"}))
                creations.append(_action("FILE_CREATE", change.new_path, _content("write", repository, change.new)))
            case "A":
                creations.append(_action("FILE_CREATE", change.path, _content("write", repository, change.new)))
            case _:
                was = hashlib.sha256(repository.content(change.old.name)).hexdigest()
                action = _action("FILE_MODIFY", change.path, _content("replace_content", repository, change.new))
                modifications.append({**action, "expected_hash_before": f"sha256:{was}"})
    actions = [
        {"action_id": f"a{n:03d}", **action}
        for n, action in enumerate((*removals, *modifications, *creations), start=1)
    ]
    plan = json.dumps({"plan_id": commit[:12], "action_plan": actions}).encode()
    if len(plan) > Plan.bounds.max_bytes:
        raise Inexpressible("a plan of more than 5 MiB")
    return plan


def _require_expressible(changes: list[Change], before: dict[str, Blob]) -> None:
    modes = {mode for change in changes for mode in (change.old.mode, change.new.mode)}
    if LINK in modes:
        raise Inexpressible("a symbolic link")
    if MODULE in modes:
        raise Inexpressible("a submodule")
    if not modes <= {*MODES, NONE}:
        raise Inexpressible("a mode that git no longer writes")
    if len({path for change in changes for path in (change.path, change.new_path) if path}) > MOST_FILES:
        raise Inexpressible(f"more than {MOST_FILES} files")
    if not changes:
        raise Inexpressible("nothing changed")
    if not all(_is_text(path) for change in changes for path in (change.path, change.new_path)):
        raise Inexpressible("a name that is not UTF-8")
    gone = {change.path for change in changes if change.kind in "DR"}
    made = {change.new_path or change.path for change in changes if change.kind in "AR"}
    folders_before = {str(folder) for path in before for folder in Path(path).parents}
    folders_made = {str(folder) for path in made for folder in Path(path).parents}
    if made & folders_before or gone & folders_made:
        raise Inexpressible("a file and a folder of one name")


def _is_text(path: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in path)


def _action(action_type: str, target: str, operation: dict[str, Any]) -> dict[str, Any]:
    return {"action_type": action_type, "target": target, "operation": operation}


def _content(kind: str, repository: Repository, blob: Blob) -> dict[str, Any]:
    content = base64.b64encode(repository.content(blob.name)).decode()
    return {"type": kind, "content_base64": content, "mode": MODES[blob.mode]}


# --- the tree on disk ------------------------------------------------------------------------------------------------


def set_tree(repository: Repository, root: Path, tree: dict[str, Blob]) -> None:
    """Set the tree without a plan, where a plan cannot express the commit."""
    for entry in root.iterdir():
        if entry.name not in OURS:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    for path, blob in tree.items():
        target = root / path
        if blob.mode == MODULE:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if blob.mode == LINK:
            target.symlink_to(_text(repository.content(blob.name)))
        else:
            target.write_bytes(repository.content(blob.name))
            target.chmod(int(MODES.get(blob.mode, "0644"), 8))


def remove_empty_folders(root: Path) -> None:
    """Remove empty folders. Git does not have them, and a plan leaves them."""
    for folder, _, _ in os.walk(root, topdown=False):
        if folder != str(root) and not any(Path(folder).is_relative_to(root / name) for name in OURS):
            with os.scandir(folder) as entries:
                empty = next(entries, None) is None
            if empty:
                os.rmdir(folder)


def differences(root: Path, tree: dict[str, Blob]) -> list[str]:
    """Every regular file that differs from the one in git, and every one that git does not have."""
    wanted = {path: blob for path, blob in tree.items() if blob.mode in MODES}
    found: dict[str, Blob] = {}
    for folder, folders, files in os.walk(root):
        if folder == str(root):
            folders[:] = [name for name in folders if name not in OURS]
        for name in files:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                found[os.path.relpath(path, root)] = _blob_at(path, len(next(iter(tree.values())).name) if tree else 40)
    return sorted(path for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path))


def _blob_at(path: str, digits: int) -> Blob:
    with open(path, "rb") as stream:
        content = stream.read()
    hasher = hashlib.sha1 if digits == 40 else hashlib.sha256  # as git names its objects
    name = hasher(b"blob %d\0%s" % (len(content), content)).hexdigest()
    mode = os.stat(path).st_mode & 0o7777
    return Blob({0o644: FILE, 0o755: PROGRAM}.get(mode, oct(mode)), name)


# --- going through it ------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    applied: int = 0
    actions: int = 0
    seconds: float = 0.0
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class Walk:
    """One repository, commit by commit, in a separate workspace."""

    def __init__(self, repository: Repository, folder: Path) -> None:
        project = folder / "project"
        self.root = project / "tree"
        self.root.mkdir(parents=True)
        environ = {**os.environ, "REMIT_STATE": str(folder / "state")}
        initialise(project, environ, system_clock)[0].close()
        (project / "remit.yaml").write_text("version: 1\nroot: tree\n", encoding="utf-8")
        self.workspace = Workspace.open(project, environ=environ)
        self.repository = repository
        self.tally = Tally()

    def step(self, parent: str | None, commit: str) -> None:
        before, after = self.repository.tree(parent), self.repository.tree(commit)
        changes = self.repository.changes(parent, commit)
        try:
            plan = make_plan(self.repository, commit, changes, before)
            envelope = self._apply(plan)
            self._compare(commit, "applied", after)
            outcome = self.workspace.rollback(envelope)
            if outcome.status != "EXECUTED":
                self.tally.wrong.append(f"{commit[:12]}: the rollback ended {outcome.status}")
            remove_empty_folders(self.root)
            self._compare(commit, "rolled back", before)
            self._apply(plan)
            self._compare(commit, "applied again", after)
            self.tally.applied += 1
            self.tally.actions += len(json.loads(plan)["action_plan"])
        except (Inexpressible, RefusedError) as problem:
            self.tally.refused[problem.reason.value if isinstance(problem, RefusedError) else str(problem)] += 1
            set_tree(self.repository, self.root, after)
        remove_empty_folders(self.root)
        for name in OURS:  # a rollback here reverses one commit only
            shutil.rmtree(self.root / name, ignore_errors=True)

    def _apply(self, plan: bytes) -> str:
        began = time.perf_counter()
        needs = self.workspace.preview(plan).document.needs
        allowed = {kind: getattr(needs, kind) for kind in ("protected", "executable", "content", "irreversible")}
        envelope = self.workspace.approve(plan, **allowed)
        outcome = self.workspace.apply(envelope.canonical())
        self.tally.seconds += time.perf_counter() - began
        if isinstance(outcome, PlanRefusal):
            raise Inexpressible(f"{outcome.errors[0].error_code} {outcome.errors[0].error_type}")
        if outcome.status.status != "SUCCESS":
            raise RuntimeError(f"{outcome.status.plan_id} ended {outcome.status.status}: {outcome.errors}")
        return envelope.envelope_id

    def _compare(self, commit: str, when: str, tree: dict[str, Blob]) -> None:
        self.tally.wrong += [f"{commit[:12]}, {when}: {path}" for path in differences(self.root, tree)]


def walk(repository: Repository, folder: Path, most: int | None) -> Tally:
    commits = repository.commits()[:most]
    walking = Walk(repository, folder)
    parent = None
    with progress("commits", len(commits)) as report:
        for number, commit in enumerate(commits):
            walking.step(parent, commit)
            parent = commit
            report(number)
    walking.workspace.close()
    return walking.tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("repository", type=Path, help="a git repository")
    parser.add_argument("--commits", type=int, help="only the first N commits")
    parser.add_argument("--folder", type=Path, default=Path(".cache"), help="where to work")
    parser.add_argument("--json", action="store_true", help="print the counts as JSON")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    repository = Repository(given.repository)
    with tempfile.TemporaryDirectory(prefix="history-", dir=given.folder) as made:
        tally = walk(repository, Path(made).resolve(), given.commits)
    repository.close()
    if given.json:
        print(json.dumps(vars(tally), indent=2))
    else:
        counts = {"commits applied, rolled back and applied again": tally.applied, "actions in them": tally.actions}
        counts |= {f"not expressible: {why}": count for why, count in tally.refused.most_common()}
        counts |= {"files that differed": len(tally.wrong)}
        for name, count in counts.items():
            print(f"{name:<50} {count:>8,}")
        print(f"{'seconds for previews, approvals and applying':<50} {tally.seconds:>8,.1f}")
    for line in tally.wrong[:50]:
        sys.stderr.write(f"differs: {line}\n")
    return 1 if tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
