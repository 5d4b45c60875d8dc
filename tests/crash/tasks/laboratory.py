"""A scenario on disks of its own: made once, laid out afresh for every run, crashed, recovered and judged."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self, runtime_checkable

from tests.crash.tasks.images import Device, copy_image, enter_namespace, make_image, pretend_reboot, unmount
from tests.support.crash_injection import Acknowledge, Decide, InjectedRun, proceed, run_apart, run_watched

LAYOUTS: Final[dict[str, dict[str, str]]] = {
    "together": {"state": "a", "left": "a", "right": "a"},
    "ledger apart": {"state": "a", "left": "b", "right": "b"},
    "across": {"state": "a", "left": "a", "right": "b"},
    "across, ledger apart": {"state": "a", "left": "b", "right": "c"},
}
"""Which folder lies on which disk. A ledger on the files' own disk makes every earlier change of names durable with it,
and so hides a missing fsync of a folder."""


@dataclass(frozen=True, slots=True)
class ScenarioFolders:
    """Where a scenario happens: what only the host may reach, and two folders for files."""

    state: Path
    left: Path
    right: Path


class Scenario(Protocol):
    """Something to be done exactly once. Each method runs in a process of its own."""

    name: str
    named: bool
    """Whether it is stopped at fault points by their names, too, and not only at system calls."""

    def seed(self, folders: ScenarioFolders) -> None:
        """Lay out the world as it is before."""

    def work(self, folders: ScenarioFolders, acknowledge: Acknowledge) -> None:
        """Do it, and say so once it may be relied on."""

    def recover(self, folders: ScenarioFolders) -> None:
        """What an operator does after a crash."""

    def look(self, folders: ScenarioFolders, acknowledged: Sequence[str]) -> list[str]:
        """What is wrong before anybody recovers: something acknowledged that is not there."""

    def judge(self, folders: ScenarioFolders, acknowledged: Sequence[str]) -> list[str]:
        """What is wrong after the recovery. May change the world: it is the last to see it."""


@runtime_checkable
class ChangesElsewhere(Protocol):
    """A scenario that also changes what is on no disk of the laboratory."""

    def keep_elsewhere(self) -> None:
        """Remember how it is there, once nobody is at work any more."""

    def bring_back_elsewhere(self) -> None:
        """Make it so again."""


class Laboratory:
    """The disks of one scenario. A context manager; enters a mount namespace for good."""

    def __init__(self, scenario: Scenario, layout: str) -> None:
        self.scenario = scenario
        self.layout = layout
        placed = LAYOUTS[layout]
        # The files in memory; the folders not beneath /dev, where no base directory may lie.
        in_memory = Path("/dev/shm")  # noqa: S108 - a private folder is made in it
        self._images = Path(tempfile.mkdtemp(prefix="remit-disks-", dir=in_memory if in_memory.is_dir() else None))
        self._base = Path(tempfile.mkdtemp(prefix="remit-crash-")).resolve()
        self._devices: dict[str, Device] = {}
        self._disks = sorted(set(placed.values()))
        self.folders = ScenarioFolders(**{role: self._base / disk / role for role, disk in placed.items()})

    def __enter__(self) -> Self:
        enter_namespace()
        for disk in self._disks:
            self._devices[disk] = Device()
            (self._base / disk).mkdir()
            make_image(self._image("template", disk))
        self._mount("template")
        for folder in (self.folders.state, self.folders.left, self.folders.right):
            folder.mkdir(mode=0o700)
        self._demand(run_apart(lambda _: self.scenario.seed(self.folders)), "seed")
        self.clear()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self.clear()
        for device in self._devices.values():
            device.remove()
        shutil.rmtree(self._images, ignore_errors=True)
        shutil.rmtree(self._base, ignore_errors=True)

    def fresh(self, origin: str = "template") -> None:
        """The world as it was kept under this name, mounted."""
        for disk in self._disks:
            copy_image(self._image(origin, disk), self._image("now", disk))
        self._mount("now")

    def clear(self) -> None:
        """Unmount. What was in the page cache reaches the files: that a process died is no power cut."""
        for disk in self._disks:
            unmount(self._base / disk)

    def keep(self, name: str) -> None:
        """Copy the files of the disks as they are at this moment, all of the same moment. Call it at a crash point.

        The page cache is not in them. Nothing may be written meanwhile, so a copy that was disturbed is made again.
        """
        for _ in range(100):
            before = self._written()
            for disk in self._disks:
                copy_image(self._image("now", disk), self._image(name, disk))
            if self._written() == before and all(counts[2] == "0" for counts in before.values()):
                return
        raise TimeoutError("the disks do not come to rest")

    def rename_kept(self, name: str) -> None:
        """After `clear`: keep the disks of the last run under this name."""
        for disk in self._disks:
            self._image("now", disk).rename(self._image(name, disk))

    def drop(self, name: str) -> None:
        for disk in self._disks:
            self._image(name, disk).unlink(missing_ok=True)

    def pretend_reboot(self) -> None:
        pretend_reboot(self._images / "boot_id")

    def renumber(self) -> None:
        """Call it while nothing is mounted: from now on each disk is found under another number."""
        old = list(self._devices.values())
        self._devices = {disk: Device() for disk in self._disks}
        for device in old:
            device.remove()

    def work(self, decide: Decide = proceed) -> InjectedRun:
        def work(acknowledge: Acknowledge) -> None:
            self.scenario.work(self.folders, acknowledge)

        return run_watched(work, self._watched(), decide, named=self.scenario.named)

    def recover(self, decide: Decide = proceed) -> InjectedRun:
        def recover(_: Acknowledge) -> None:
            self.scenario.recover(self.folders)

        return run_watched(recover, self._watched(), decide, named=self.scenario.named)

    def aftermath(self, acknowledged: Sequence[str]) -> list[str]:
        """Recover what a crash has left, and tell what is wrong. Empty: nothing is."""
        problems = self._ask(self.scenario.look, acknowledged, "before recovery")
        recovered = self.recover()
        if recovered.exit_code != 0:
            problems.append(f"recovery failed: {_last_lines(recovered.output)}")
        problems += [f"recovery left a process behind: {process}" for process in recovered.lingering]
        return problems + self._ask(self.scenario.judge, acknowledged, "after recovery")

    def _ask(
        self, question: Callable[[ScenarioFolders, Sequence[str]], list[str]], acknowledged: Sequence[str], when: str
    ) -> list[str]:
        def answer(say: Acknowledge) -> None:
            for problem in question(self.folders, acknowledged):
                say(problem)

        ended = run_apart(answer)
        wrong = [f"{when}: {problem}" for problem in ended.acknowledged]
        return wrong if ended.exit_code == 0 else [*wrong, f"{when}: the judge failed: {_last_lines(ended.output)}"]

    def _watched(self) -> list[str]:
        return [str(self._base / disk) for disk in self._disks]

    def _written(self) -> Mapping[str, tuple[str, ...]]:
        return {disk: device.written() for disk, device in self._devices.items()}

    def _mount(self, name: str) -> None:
        for disk in self._disks:
            self._devices[disk].mount(self._image(name, disk), self._base / disk)

    def _image(self, name: str, disk: str) -> Path:
        return self._images / f"{name}.{disk}"

    @staticmethod
    def _demand(ended: InjectedRun, what: str) -> None:
        if ended.exit_code != 0:
            raise RuntimeError(f"{what} failed by itself: {ended.output}")


def _last_lines(output: str) -> str:
    return " | ".join(output.strip().splitlines()[-3:]) or "(it said nothing)"
