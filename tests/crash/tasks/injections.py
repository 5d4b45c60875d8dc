"""The ways to go wrong. Each stops a scenario at its points, one run for each or one for all; the rest is judged."""

import errno
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.crash.tasks.laboratory import ChangesElsewhere, Laboratory
from tests.support.crash_injection import PROCEED, Action, Decide, Fail, InjectedRun, Kill, Point, Pretend, Shorten
from tests.support.short_writes import WRITES, can_be_halved

Acknowledged = Callable[[], tuple[str, ...]]
Sabotage = Callable[[Point], bool]

TAKES_SPACE: Final = WRITES | {
    *("open", "openat", "openat2", "creat", "mkdir", "mkdirat", "link", "linkat", "symlink", "symlinkat", "fallocate"),
    *("pwritev2", "sendfile", "setxattr", "fsetxattr"),
}


@dataclass(slots=True)
class Findings:
    """What one way found in one scenario."""

    points: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    places: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def count(self, point: Point | None, problems: list[str], *, more: str = "") -> None:
        self.points += 1
        self.calls[point.call if point else "end"] += 1
        self.places[_place(point.paths[0]) if point else "end"] += 1
        where = f"at {point}" if point else "after the last call"
        self.problems += [f"{where}{more}: {problem}" for problem in problems]


def _place(path: str) -> str:
    """What was about to change, in the words of the summary."""
    folders, name = path.split("/")[:-1], os.path.basename(path)
    if name.startswith("ledger.sqlite3"):
        return "wal index" if name.endswith("-shm") else "ledger"
    if "snapshots" in folders:
        return "snapshot"
    if not path.startswith("/"):
        return "fault point"
    if "agent_outputs" in folders or name in {"agent_outputs", "agent_logs"} or "agent_logs" in folders:
        return "backup" if "backups" in folders else "papers"
    if name.startswith(".remit-"):
        return "set aside"
    return "other state" if "state" in folders else "files"


@dataclass(frozen=True, slots=True)
class Choice:
    """Which points are taken: every `step`-th of all there are, or of those `among` which we choose.

    `second` is the step of the second kill, where there is one.
    """

    step: int = 1
    second: int = 1
    among: tuple[int, ...] | None = None

    def numbers(self) -> Iterator[int]:
        """Ascending; without an end if nobody said what there is."""
        return itertools.count(1, self.step) if self.among is None else iter(self.among[:: self.step])

    def seconds(self, number: int) -> Iterator[int]:
        """Shifted with each first point, so that together they meet every second one."""
        return itertools.count(1 + number % self.second, self.second)


def points_in(ended: InjectedRun, place: str) -> tuple[int, ...]:
    """The points of a run that were to change this: `files`, `ledger`, `snapshot`; or one of several, with commas."""
    places = place.split(",")
    return tuple(point.number for point in ended.points if _place(point.paths[0]) in places)


def choice_for(ended: InjectedRun, way: str, step: int, second: int) -> Choice:
    """Every `step`-th of the points that this way can stop: `short` and `full` only writes.

    The writes are counted by their call and by what they are to change, and the first one of each kind is taken. Most
    writes are those of the ledger. A thinned sweep that counted all of them in one row would meet no copy of an output.
    """
    calls = {"short": WRITES, "full": TAKES_SPACE}.get(way)
    if calls is None:
        return Choice(step, second)
    kinds: dict[tuple[str, str], list[int]] = {}
    for point in ended.points:
        if point.call in calls and (point.call not in WRITES or can_be_halved(point.report)):
            kinds.setdefault((point.call, _place(point.paths[0])), []).append(point.number)
    return Choice(1, second, tuple(sorted(number for kind in kinds.values() for number in kind[::step])))


def unharmed(lab: Laboratory) -> InjectedRun:
    """The scenario as it should go; whatever is wrong then is no matter of crashes."""
    lab.fresh()
    ended = lab.work()
    wrong = lab.aftermath(ended.acknowledged) if ended.exit_code == 0 else [ended.output]
    lab.clear()
    if wrong or ended.lingering:
        raise RuntimeError(f"{lab.scenario.name} fails by itself: {wrong} {ended.lingering}")
    return ended


def kill(lab: Laboratory, choice: Choice) -> Findings:
    """SIGKILL for the whole tree, instead of the call."""
    findings = Findings()
    for number in choice.numbers():
        lab.fresh()
        ended = lab.work(_at(number, Kill()))
        if not _stopped(ended, killed=True):
            lab.clear()
            return findings
        findings.count(ended.stopped[0], lab.aftermath(ended.acknowledged))
        lab.clear()
    return findings


def fail(lab: Laboratory, choice: Choice, number_of_error: int) -> Findings:
    """The call fails once; the program goes on as it likes, and must end."""
    findings = Findings()
    for number in choice.numbers():
        lab.fresh()
        ended = lab.work(_at(number, Fail(number_of_error)))
        if not _stopped(ended):
            lab.clear()
            if len(ended.points) < number:
                return findings
            continue  # a fault point, which cannot fail
        findings.count(ended.stopped[0], _lingering(ended) + lab.aftermath(ended.acknowledged))
        lab.clear()
    return findings


def short(lab: Laboratory, choice: Choice) -> Findings:
    """One write takes half of the bytes, as any write may."""
    return _each_write(lab, choice, lambda number: _at(number, Shorten()))


def full(lab: Laboratory, choice: Choice) -> Findings:
    """The disk is full in the middle of a write, and stays so until the program has ended."""

    def decide_from(number: int) -> Decide:
        def decide(point: Point, _: Acknowledged) -> Action:
            if point.number < number or point.call not in TAKES_SPACE:
                return PROCEED
            return Shorten() if point.number == number and point.call in WRITES else Fail(errno.ENOSPC)

        return decide

    return _each_write(lab, choice, decide_from)


def _each_write(lab: Laboratory, choice: Choice, decide: Callable[[int], Decide]) -> Findings:
    findings = Findings()
    for number in choice.numbers():
        lab.fresh()
        ended = lab.work(decide(number))
        if len(ended.points) >= number and ended.stopped and ended.stopped[0].number == number:
            findings.count(ended.stopped[0], _lingering(ended) + lab.aftermath(ended.acknowledged))
        lab.clear()
        if len(ended.points) < number:
            return findings
    return findings


def nested(lab: Laboratory, choice: Choice) -> Findings:
    """SIGKILL, then SIGKILL during the recovery, then recovered in peace."""
    findings = Findings()
    for number in choice.numbers():
        lab.fresh()
        first = lab.work(_at(number, Kill()))
        stopped = _stopped(first, killed=True)
        lab.clear()
        if not stopped:
            return findings
        lab.rename_kept("first")
        elsewhere = lab.scenario if isinstance(lab.scenario, ChangesElsewhere) else None
        if elsewhere:
            elsewhere.keep_elsewhere()
        for second in choice.seconds(number):
            lab.fresh("first")
            if elsewhere:
                elsewhere.bring_back_elsewhere()
            again = lab.recover(_at(second, Kill()))
            if not _stopped(again, killed=True):
                lab.clear()
                break
            more = f", and at {again.stopped[0]} of the recovery"
            findings.count(first.stopped[0], lab.aftermath(first.acknowledged), more=more)
            lab.clear()
        lab.drop("first")
    return findings


def renumbered(lab: Laboratory, choice: Choice) -> Findings:
    """A power cut after which the disks have other device numbers: they were found in another order."""
    return power(lab, choice, after=lab.renumber)


def power(
    lab: Laboratory,
    choice: Choice,
    *,
    sabotage: Sabotage = lambda _: False,
    after: Callable[[], None] = lambda: None,
) -> Findings:
    """The disks as they are at each point of one run, and after it, without what was only in memory.

    With `sabotage`, calls are pretended: the judge must notice that they are missing.
    """
    kept: dict[str, tuple[Point | None, tuple[str, ...]]] = {}
    wanted = choice.numbers()
    following = next(wanted, 0)

    def decide(point: Point, acknowledged: Acknowledged) -> Action:
        nonlocal following
        if point.number == following:
            lab.keep(f"cut{point.number}")
            kept[f"cut{point.number}"] = (point, acknowledged())
            following = next(wanted, 0)
        return Pretend() if sabotage(point) else PROCEED

    lab.fresh()
    ended = lab.work(decide)
    if ended.exit_code != 0:
        raise RuntimeError(f"{lab.scenario.name} failed by itself: {ended.output}")
    lab.keep("end")
    kept["end"] = (None, ended.acknowledged)
    lab.clear()
    lab.pretend_reboot()
    after()
    findings = Findings()
    for name, (point, acknowledged) in kept.items():
        lab.fresh(name)
        findings.count(point, lab.aftermath(acknowledged))
        lab.clear()
        lab.drop(name)
    return findings


WAYS: Final[dict[str, Callable[[Laboratory, Choice], Findings]]] = {
    "kill": kill,
    "power": power,
    "renumbered": renumbered,
    "ENOSPC": lambda lab, choice: fail(lab, choice, errno.ENOSPC),
    "EIO": lambda lab, choice: fail(lab, choice, errno.EIO),
    "short": short,
    "full": full,
    "nested": nested,
}


def _at(number: int, action: Action) -> Decide:
    return lambda point, _: action if point.number == number else PROCEED


def _stopped(ended: InjectedRun, *, killed: bool = False) -> bool:
    """Whether it was really stopped; False once there are no more points. A kill that did not kill is our mistake."""
    if not ended.stopped:
        if ended.exit_code != 0:
            raise RuntimeError(f"it failed by itself: {ended.output}")
        return False
    if killed and not ended.killed:
        raise RuntimeError(f"it was to die at {ended.stopped[0]}, and ended with {ended.exit_code}")
    return True


def _lingering(ended: InjectedRun) -> list[str]:
    return [f"a process outlived the program: {process}" for process in ended.lingering]
