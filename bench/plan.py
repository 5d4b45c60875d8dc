"""Measures an approved plan against the same edits in plain Python, by Ansible, and as commits of a shadow git.

Every figure of one run comes from one machine at one time. The ways take turns, and the claims are ratios of medians.
The exit code is 1 if a target is missed. `bench/README.md` explains the measurements and has the results.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import figures
from figures import Figure, print_step, render
from remit.core.ids import system_clock
from remit.workspace.create import initialise
from remit.workspace.workspace import Workspace

FILES: Final = 100
LINES: Final = 200
PEERS: Final = Path(".cache/peers/bin")
PLAYBOOK: Final = """\
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.lineinfile:
        path: "{{ item }}"
        regexp: '^line 100 .*'
        line: "line 100 of round {{ number }}"
        backup: true
      loop: "{{ files }}"
"""


def content_of(round_number: int) -> str:
    """About 10 KB. The line in the middle is edited."""
    padding = "x" * 38
    lines = [f"line {number} {padding}" for number in range(LINES)]
    lines[LINES // 2] = f"line {LINES // 2} of round {round_number}"
    return "\n".join(lines) + "\n"


def edited_line(round_number: int) -> str:
    return f"line {LINES // 2} of round {round_number}"


class Files:
    """Text files to edit, all as they were in round 0."""

    def __init__(self, folder: Path, count: int) -> None:
        folder.mkdir(parents=True)
        self.paths = [folder / f"file-{number:06d}.txt" for number in range(count)]
        for path in self.paths:
            path.write_text(content_of(0), encoding="utf-8")

    def require_round(self, round_number: int, count: int) -> None:
        wanted = content_of(round_number)
        for path in self.paths[:count]:
            assert path.read_text(encoding="utf-8") == wanted, f"{path.name} is not as in round {round_number}"


# --- the ways --------------------------------------------------------------------------------------------------------


class Raw:
    """The least work that allows an undo: copy and sync each file, write and sync the new file beside it, rename it."""

    def __init__(self, folder: Path) -> None:
        self.files = Files(folder / "tree", FILES)
        self._backups = folder / "backups"
        self._backups.mkdir()
        self._round = 0

    def edit(self, count: int) -> float:
        self._round += 1
        old, new = edited_line(self._round - 1).encode(), edited_line(self._round).encode()
        kept = self._backups / str(self._round)
        began = time.perf_counter()
        kept.mkdir()
        for path in self.files.paths[:count]:
            content = path.read_bytes()
            _write_durably(kept / path.name, content)
            temporary = path.with_name(f".{path.name}.new")
            _write_durably(temporary, content.replace(old, new))
            os.replace(temporary, path)
        for folder in (kept, self.files.paths[0].parent):
            _sync(folder)
        taken = time.perf_counter() - began
        self.files.require_round(self._round, count)
        return taken * 1e3


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(descriptor)
    os.close(descriptor)


class Governed:
    """The same edits as one plan. It is approved before, because approval is a person's work and not the executor's."""

    def __init__(self, folder: Path, count: int = FILES) -> None:
        self._folder = folder
        project = folder / "project"
        self.files = Files(project / "tree", count)
        self._environ = {**os.environ, "REMIT_STATE": str(folder / "state")}
        initialise(project, self._environ, system_clock)[0].close()
        self._project = project
        self.workspace = Workspace.open(project, environ=self._environ)
        # One counter for each size of plan, because only the files that the plan names are edited.
        self._round = 0

    def _approved(self, count: int) -> bytes:
        self._round += 1
        operation = {
            "type": "text_replace",
            "pattern": edited_line(self._round - 1),
            "replacement": edited_line(self._round),
        }
        actions = [
            {
                "action_id": f"a{number:04d}",
                "action_type": "FILE_MODIFY",
                "target": f"tree/{path.name}",
                "operation": operation,
            }
            for number, path in enumerate(self.files.paths[:count])
        ]
        plan = json.dumps({"plan_id": f"bench-{self._round}", "action_plan": actions}).encode()
        return self.workspace.approve(plan).canonical()

    def edit(self, count: int) -> float:
        envelope = self._approved(count)
        began = time.perf_counter()
        outcome = self.workspace.apply(envelope)
        taken = time.perf_counter() - began
        assert outcome.tree().get("status", {}).get("status") == "SUCCESS", outcome
        self.files.require_round(self._round, count)
        return taken * 1e3

    def edit_cold(self, count: int) -> float:
        """By the command, in a separate process."""
        envelope = self._folder / "envelope.json"
        envelope.write_bytes(self._approved(count))
        command = [sys.executable, "-m", "remit", "apply", "--json", "-C", str(self._project), str(envelope)]
        taken = _spawn(command, self._environ)
        self.files.require_round(self._round, count)
        return taken

    def close(self) -> None:
        self.workspace.close()


class Ansible:
    """A playbook that edits the same line of the same number of files, with a backup of each."""

    def __init__(self, folder: Path) -> None:
        self.files = Files(folder / "tree", FILES)
        self._playbook = folder / "playbook.yml"
        self._playbook.write_text(PLAYBOOK, encoding="utf-8")
        self._environ = {**os.environ, "ANSIBLE_HOME": str(folder / "home"), "ANSIBLE_NOCOLOR": "1"}
        self._round = 0

    def edit(self, count: int) -> float:
        self._round += 1
        python = str((PEERS / "python").absolute())  # named, so that Ansible does not search for one
        files = [str(path) for path in self.files.paths[:count]]
        given = {"number": self._round, "files": files, "ansible_python_interpreter": python}
        command = [str(PEERS / "ansible-playbook"), "-i", "localhost,", "-e", json.dumps(given), str(self._playbook)]
        taken = _spawn(command, self._environ)
        self.files.require_round(self._round, count)
        return taken


class ShadowGit:
    """An undo for a whole tree: a commit of the tree after one edit, in a repository beside it."""

    def __init__(self, folder: Path, count: int) -> None:
        self.files = Files(folder / "tree", count)
        self._git = ["git", f"--git-dir={folder / 'shadow'}", f"--work-tree={folder / 'tree'}"]
        who = {"GIT_AUTHOR_NAME": "bench", "GIT_AUTHOR_EMAIL": "bench@example.org"}
        self._environ = {**os.environ, **who, "GIT_COMMITTER_NAME": "bench", "GIT_COMMITTER_EMAIL": "bench@example.org"}
        self._round = 0
        subprocess.run([*self._git, "init", "--quiet"], check=True)
        self.edit(0)

    def edit(self, count: int) -> float:
        self._round += 1
        began = time.perf_counter()
        for path in self.files.paths[:count]:
            path.write_text(content_of(self._round), encoding="utf-8")
        _spawn([*self._git, "add", "--all"], self._environ)
        _spawn([*self._git, "commit", "--quiet", "--no-verify", "--allow-empty", "-m", "edit"], self._environ)
        return (time.perf_counter() - began) * 1e3


def _spawn(command: list[str], environ: dict[str, str]) -> float:
    # Not `subprocess`, because its own work would be measured too.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    began = time.perf_counter()
    child = os.posix_spawnp(command[0], command, environ, file_actions=[(os.POSIX_SPAWN_DUP2, nowhere, 1)])
    _, status = os.waitpid(child, 0)
    taken = (time.perf_counter() - began) * 1e3
    os.close(nowhere)
    if status != 0:
        raise RuntimeError(f"{command[0]} ended with {os.waitstatus_to_exitcode(status)}")
    return taken


# --- measuring -------------------------------------------------------------------------------------------------------


def take_turns(ways: dict[str, Callable[[], float]], rounds: int, what: str) -> dict[str, float]:
    """The median of each, in milliseconds."""
    return {name: statistics.median(taken) for name, taken in figures.take_turns(ways, rounds, what).items()}


def measure_edits(folder: Path, rounds: int, *, peers: bool) -> list[Figure]:
    raw, warm, cold = Raw(folder / "raw"), Governed(folder / "warm"), Governed(folder / "cold")
    ansible = Ansible(folder / "ansible") if peers else None
    middle = take_turns(
        {"raw": lambda: raw.edit(FILES), "warm": lambda: warm.edit(FILES)}, rounds, "rounds of 100 files"
    )
    figures = [
        Figure(f"plain Python, {FILES} files, p50", middle["raw"], "ms"),
        Figure(f"governed plan, {FILES} files, p50", middle["warm"], "ms"),
        Figure("governed plan / plain Python", middle["warm"] / middle["raw"], "x", most=2.5),
    ]
    slow: dict[str, Callable[[], float]] = {"cold": lambda: cold.edit_cold(FILES)}
    if ansible:
        playbook = ansible
        slow["ansible"] = lambda: playbook.edit(FILES)
    seconds = take_turns(slow, max(rounds // 4, 1), "rounds of 100 files, cold")
    figures.append(Figure(f"cold remit apply, {FILES} files, p50", seconds["cold"], "ms"))
    if ansible:
        figures += [
            Figure(f"Ansible lineinfile with backup, {FILES} files, p50", seconds["ansible"], "ms"),
            Figure("Ansible / cold remit apply", seconds["ansible"] / seconds["cold"], "x", least=20),
        ]
    for governed in (warm, cold):
        governed.close()
    return figures


def measure_sizes(folder: Path, rounds: int) -> list[Figure]:
    """What one action costs in plans of one, ten and a hundred."""
    sizes = (1, 10, 100)
    ways = {size: Governed(folder / str(size)) for size in sizes}
    turns: dict[str, Callable[[], float]] = {str(size): partial(ways[size].edit, size) for size in sizes}
    middle = take_turns(turns, rounds, "rounds of 1, 10 and 100")
    for governed in ways.values():
        governed.close()
    each = {size: middle[str(size)] / size for size in sizes}
    figures = [Figure(f"cost of an action, plan of {size}", each[size], "ms") for size in sizes]
    return [*figures, Figure("cost of an action, plan of 100 against 1", each[100] / each[1], "x", most=1.0)]


def measure_trees(folder: Path, rounds: int, largest: int) -> list[Figure]:
    """One edit in trees of different sizes, by Remit and by a shadow git."""
    small, shadows = 100, (largest // 100, largest // 10)
    print_step(f"making trees of up to {largest:,} files")
    ours = {count: Governed(folder / f"ours-{count}", count) for count in (small, largest)}
    git = {count: ShadowGit(folder / f"git-{count}", count) for count in shadows}
    ways: dict[str, Callable[[], float]] = {f"ours {count}": partial(way.edit, 1) for count, way in ours.items()}
    ways |= {f"git {count}": partial(way.edit, 1) for count, way in git.items()}
    middle = take_turns(ways, rounds, "rounds of one edit")
    for governed in ours.values():
        governed.close()
    figures = [Figure(f"one edit, governed, tree of {count:,}", middle[f"ours {count}"], "ms") for count in ours]
    figures += [
        Figure(f"one edit, shadow git commit, tree of {count:,}", middle[f"git {count}"], "ms") for count in git
    ]
    grown = middle[f"ours {largest}"] / middle[f"ours {small}"]
    return [*figures, Figure(f"one edit, tree of {largest:,} against {small}", grown, "x", most=1.1)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20, help="how often the ways take turns")
    parser.add_argument("--tree", type=int, default=100_000, help="files in the largest tree; 0 for no trees")
    parser.add_argument("--without-peers", action="store_true", help="leave Ansible out")
    parser.add_argument("--folder", type=Path, default=Path(".cache"), help="where to work: the disk to be measured")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    if not shutil.which("git"):
        sys.exit("bench: git is missing")
    peers = not given.without_peers
    if peers and not (PEERS / "ansible-playbook").exists():
        sys.exit("bench: Ansible is missing; `make bench` sets it up, --without-peers leaves it out")
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=given.folder) as made:
        folder = Path(made).resolve()
        figures = measure_edits(folder / "edits", given.rounds, peers=peers)
        figures += measure_sizes(folder / "sizes", given.rounds)
        if given.tree:
            figures += measure_trees(folder / "trees", given.rounds, given.tree)
    print(json.dumps([vars(figure) for figure in figures], indent=2) if given.json else render(figures))
    return 1 if any(figure.missed for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
