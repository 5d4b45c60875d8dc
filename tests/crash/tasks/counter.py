"""A small piece of work of our own, done right or wrong: the harness is proved on it before it judges the product.

A file says how often it was counted up. Each count: an intent in a ledger with the value before, a new file in place of
the old one by a process of its own, an outcome in the ledger, an acknowledgement. `bug` names what is done wrong.
"""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from tests.crash.tasks.laboratory import ScenarioFolders
from tests.support.crash_injection import Acknowledge

BUGS: Final = (
    *("in-place write", "no fsync", "no directory fsync", "synchronous=off"),
    *("short write", "short copy", "doubled effect"),
)
COUNTS: Final = 2


def content(value: int) -> bytes:
    return b"counted up to %d\n" % value * 600


class Counter:
    """The scenario. Recovery completes every count."""

    named = False

    def __init__(self, bug: str = "") -> None:
        self.name = f"counter with {bug}" if bug else "counter"
        self._bug = bug

    def seed(self, folders: ScenarioFolders) -> None:
        with closing(self._ledger(folders)) as ledger:
            ledger.execute("CREATE TABLE counts (step INTEGER PRIMARY KEY, value INTEGER, done INTEGER)")
        self._replace(folders, content(0), bug="")

    def work(self, folders: ScenarioFolders, acknowledge: Acknowledge) -> None:
        with closing(self._ledger(folders)) as ledger:
            begun = dict(ledger.execute("SELECT step, value FROM counts WHERE NOT done").fetchall())
            done = {step for (step,) in ledger.execute("SELECT step FROM counts WHERE done")}
            for step in range(COUNTS):
                if step in done:
                    continue
                now = self._read(folders)
                before = begun.get(step, now)
                if step not in begun:
                    ledger.execute("INSERT INTO counts VALUES (?, ?, 0)", (step, before))
                if now == before or self._bug == "doubled effect":
                    self._in_a_process_of_its_own(folders, now + 1)
                ledger.execute("UPDATE counts SET done = 1 WHERE step = ?", (step,))
                acknowledge(str(step))

    def recover(self, folders: ScenarioFolders) -> None:
        (folders.left / "count.new").unlink(missing_ok=True)
        self.work(folders, lambda _: None)

    def look(self, folders: ScenarioFolders, acknowledged: Sequence[str]) -> list[str]:
        if not acknowledged:
            return []
        value = self._read(folders)
        with closing(self._ledger(folders)) as ledger:
            done = {str(step) for (step,) in ledger.execute("SELECT step FROM counts WHERE done")}
        wrong = [f"acknowledged and not in the ledger: {step}" for step in acknowledged if step not in done]
        return wrong + ([f"{len(acknowledged)} acknowledged, {value} in the file"] if value < len(acknowledged) else [])

    def judge(self, folders: ScenarioFolders, acknowledged: Sequence[str]) -> list[str]:
        wrong = self.look(folders, acknowledged)
        if (value := self._read(folders)) != COUNTS:
            wrong.append(f"counted {value} times instead of {COUNTS}")
        if os.listdir(folders.left) != ["count"]:
            wrong.append(f"left behind: {os.listdir(folders.left)}")
        with closing(self._ledger(folders)) as ledger:
            if ledger.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                wrong.append("the ledger is damaged")
            rows = ledger.execute("SELECT step, value, done FROM counts ORDER BY step").fetchall()
        if rows != [(step, step, 1) for step in range(COUNTS)]:
            wrong.append(f"the ledger says {rows}")
        return wrong

    def _ledger(self, folders: ScenarioFolders) -> sqlite3.Connection:
        ledger = sqlite3.connect(folders.state / "ledger.sqlite3", isolation_level=None)
        ledger.execute("PRAGMA journal_mode = WAL")
        ledger.execute(f"PRAGMA synchronous = {'OFF' if self._bug == 'synchronous=off' else 'FULL'}")
        return ledger

    def _read(self, folders: ScenarioFolders) -> int:
        found = (folders.left / "count").read_bytes()
        for value in range(2 * COUNTS + 1):
            if found == content(value):
                return value
        raise ValueError(f"the file is torn: {len(found)} bytes, {found[:30]!r}")

    def _in_a_process_of_its_own(self, folders: ScenarioFolders, value: int) -> None:
        """In a session of its own, as a sandboxed child is in a process group of its own."""
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.setsid()
                self._replace(folders, content(value), bug=self._bug)
                code = 0
            finally:
                os._exit(code)
        if os.waitpid(pid, 0)[1] != 0:
            raise OSError("the effect failed")

    @staticmethod
    def _replace(folders: ScenarioFolders, data: bytes, *, bug: str) -> None:
        place = folders.left / ("count" if bug == "in-place write" else "count.new")
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        written = _copy_once(folders, descriptor, data) if bug == "short copy" else os.write(descriptor, data)
        while written < len(data) and bug not in {"short write", "short copy"}:
            written += os.write(descriptor, data[written:])
        if bug != "no fsync":
            os.fsync(descriptor)
        os.close(descriptor)
        if bug != "in-place write":
            os.rename(place, folders.left / "count")
        if bug != "no directory fsync":
            folder = os.open(folders.left, os.O_RDONLY | os.O_DIRECTORY)
            os.fsync(folder)
            os.close(folder)


def _copy_once(folders: ScenarioFolders, target: int, data: bytes) -> int:
    """The kernel's copy of a complete file of the same disk, without a look at how much it copied."""
    draft = folders.left / "count.draft"
    draft.write_bytes(data)
    with draft.open("rb") as source:
        copied = os.copy_file_range(source.fileno(), target, len(data))
    draft.unlink()
    return copied
