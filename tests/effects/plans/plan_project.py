"""A project to carry plans out in, by the effects themselves, with a stand-in for the host that listens and notes.

Also a process that dies at a system call of one's choice: what it leaves is what a crash leaves.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from remit.effects.context import Effect, EffectContext, PathHandle
from remit.effects.plans.entry_plain import APPLY, SIMULATE
from remit.effects.plans.files import old_name, state_of
from remit.effects.plans.steps import (
    Move,
    PlanStep,
    State,
    StepPlan,
    StepProgress,
    encode_plan,
    make_waves,
    note_wave,
    read_progress,
)
from remit.fs import openat as beneath
from remit.fs.atomic_write import write_all

PREFIX: Final = "0123456789abcdef0123"
KILLED: Final = 9

MOVES: Final[dict[str, Move]] = {
    "FILE_CREATE": "create",
    "FILE_MODIFY": "modify",
    "FILE_DELETE": "delete",
    "FILE_RENAME": "rename",
    "SCHEMA_UPDATE": "modify",
}

Action = Mapping[str, Any]


def create(path: str, content: str, **more: Any) -> Action:
    return {"action_type": "FILE_CREATE", "path": path, "operation": {"type": "write", "content": content}, **more}


def replace(path: str, content: str, **more: Any) -> Action:
    operation = {"type": "replace_content", "content": content}
    return {"action_type": "FILE_MODIFY", "path": path, "operation": operation, **more}


def edit(path: str, pattern: str, replacement: str, **more: Any) -> Action:
    operation = {"type": "text_replace", "pattern": pattern, "replacement": replacement}
    return {"action_type": "FILE_MODIFY", "path": path, "operation": operation, **more}


def delete(path: str, **more: Any) -> Action:
    return {"action_type": "FILE_DELETE", "path": path, "operation": {"type": "delete"}, **more}


def rename(path: str, new_path: str, **more: Any) -> Action:
    operation = {"type": "rename", "new_path": new_path}
    return {"action_type": "FILE_RENAME", "path": path, "new_path": new_path, "operation": operation, **more}


class Prepared(NamedTuple):
    """A file as SQL is to find it, and as it leaves it."""

    path: str
    before: bytes | None
    after: bytes
    is_database: bool = True
    mode: int = 0o644
    needs: tuple[int, ...] = ()


@dataclass
class PlanPlace:
    """One project folder, and what the effects said of it."""

    root: Path
    stack: ExitStack
    frames: list[Mapping[str, Any]] = field(default_factory=list)
    notes: list[Mapping[str, Any]] = field(default_factory=list)
    asked: list[Mapping[str, Any]] = field(default_factory=list)
    given: dict[str, int] = field(default_factory=dict)
    check_next_wave: Callable[[int], bool] = lambda _: True
    durable: Sequence[int] = ()
    """The steps whose new file the host says is synced."""

    def file(self, name: str, content: bytes | str = b"some bytes\n", mode: int = 0o644) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)
        return path

    def give(self, name: str, content: bytes) -> None:
        """A file without a name, open, for steps whose source this is."""
        kept = os.open(self.root.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self.stack.callback(os.close, kept)
        write_all(kept, content)
        self.given[name] = kept

    # --- as the host

    def prepared(self, *files: "Prepared", **flags: Any) -> StepPlan:
        """One step for each: as it comes from the host, which ran its SQL on a copy."""
        paths = list(dict.fromkeys(one.path for one in files))
        steps = []
        for number, one in enumerate(files):
            after = state_of(one.after, one.mode)
            source = "" if one.after == one.before else f"prepared-{number}"
            if source:
                self.give(source, one.after)
            steps.append(
                PlanStep(
                    number=number,
                    action_id=f"a{number + 1:03}",
                    action_type="SQL_EXECUTE",
                    move="create" if one.before is None else "modify",
                    path=paths.index(one.path),
                    operation={"database": True} if one.is_database else {},
                    needs=one.needs,
                    before=None if one.before is None else state_of(one.before, one.mode),
                    after=after,
                    summary="1 statement",
                    unchanged=not source,
                    source=source,
                )
            )
        return StepPlan(prefix=PREFIX, paths=tuple(paths), steps=tuple(steps), waves=make_waves(steps, {}), **flags)

    def draft(self, *actions: Action, **flags: Any) -> StepPlan:
        """The actions in the order they stand in, as the host would send them to be looked at."""
        paths = list(dict.fromkeys(p for one in actions for p in (one["path"], one.get("new_path")) if p is not None))
        steps = tuple(
            PlanStep(
                number=number,
                action_id=f"a{number + 1:03}",
                action_type=one["action_type"],
                move=MOVES[one["action_type"]],
                path=paths.index(one["path"]),
                new_path=paths.index(one["new_path"]) if "new_path" in one else None,
                operation=one["operation"],
                needs=tuple(one.get("needs", ())),
                expected_before=one.get("expected_before"),
                expected_after=one.get("expected_after"),
            )
            for number, one in enumerate(actions)
        )
        return StepPlan(prefix=PREFIX, paths=tuple(paths), steps=steps, waves=make_waves(steps, {}), **flags)

    def simulate(
        self, plan: StepPlan, effect: Effect = SIMULATE, *, shown: Sequence[str] = ()
    ) -> dict[int, Mapping[str, Any]]:
        """The `seen` frames, by the number of the step. Of what was prepared, the child is given what is `shown`."""
        self.frames.clear()
        work = self.work(plan)
        assert effect.run(work._replace(given={name: work.given[name] for name in ("plan", *shown)})) == {}
        return {frame["number"]: frame for frame in self.frames if frame["phase"] == "seen"}

    def plan(self, *actions: Action, **flags: Any) -> StepPlan:
        """Looked at, and with what was seen written into the steps."""
        draft = self.draft(*actions, **flags)
        seen = self.simulate(draft)
        for path in draft.paths:  # the host makes the folders that are missing
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        told = ("before", "after", "summary", "unchanged")
        steps = tuple(
            step._replace(**{name: seen[step.number][name] for name in told}, problem=seen[step.number].get("problem"))
            for step in draft.steps
        )
        self.frames.clear()
        return draft._replace(steps=steps)

    def work(self, plan: StepPlan, **inputs: Any) -> EffectContext:
        given = os.memfd_create("plan")
        self.stack.callback(os.close, given)
        os.write(given, encode_plan(plan))
        return EffectContext(
            task_id="e-1",
            capability_id="PLAN",
            inputs=inputs,
            reversible=True,
            part_name="",
            spots=self._spots(plan.paths),
            given={"plan": given, **self.given},
            ask=self._answer,
            step=self.frames.append,
        )

    def run(self, plan: StepPlan, **inputs: Any) -> None:
        assert APPLY.run(self.work(plan, **inputs)) == {}

    def undo(self, plan: StepPlan, wave: int = 0, **inputs: Any) -> list[int]:
        output = APPLY.settle(self.work(plan, wave=wave, **inputs), finish=False)
        assert output is not None
        left: list[int] = output["left"]
        return left

    def finish(self, plan: StepPlan, wave: int = 0, **inputs: Any) -> bool:
        output = APPLY.settle(self.work(plan, wave=wave, **inputs), finish=True)
        assert output is not None
        forward: bool = output["forward"]
        return forward

    def clear(self, plan: StepPlan) -> None:
        """As the host does when all is verified and reported."""
        for step in plan.steps:
            if step.move in {"modify", "delete"}:
                folder = (self.root / plan.paths[step.path]).parent
                (folder / old_name(plan, step)).unlink(missing_ok=True)

    # --- what was said

    def ends(self) -> list[tuple[int, str]]:
        return [(f["number"], f["phase"]) for f in self.frames if f["phase"] in {"done", "failed", "skipped"}]

    def told(self, number: int, phase: str) -> Mapping[str, Any]:
        found = [frame for frame in self.frames if frame["number"] == number and frame["phase"] == phase]
        assert len(found) == 1, f"step {number} is said to be {phase} {len(found)} times"
        return found[0]

    def _answer(self, question: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked.append(question)
        wave = question["wave"]
        if not self.check_next_wave(wave):
            return {"go": False}
        if wave > 0:
            not_done = [number for number, end in self.ends() if end != "done"]
            self.notes.append(note_wave(wave, not_done))
        return {"go": True, "durable": self.durable}

    def _spots(self, paths: Sequence[str]) -> dict[str, PathHandle]:
        spots = {}
        base = beneath.open_base(str(self.root))
        self.stack.callback(os.close, base)
        for number, path in enumerate(paths):
            *parents, name = path.split("/")
            if self.root.joinpath(*parents).is_dir():
                folder = beneath.open_folder(base, parents, where=path)
                self.stack.callback(os.close, folder)
                spots[str(number)] = PathHandle(path, folder, name)
        return spots

    def progress(self) -> StepProgress:
        return read_progress(self.notes)


def tree(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file: inode, permissions, bytes. Going back gives back the very file."""
    return {
        str(path.relative_to(root)): (found.st_ino, found.st_mode & 0o7777, path.read_bytes())
        for path in sorted(root.rglob("*"))
        if not path.is_dir()
        for found in [path.lstat()]
    }


def contents(root: Path) -> dict[str, tuple[int, bytes]]:
    """The same without the inodes, and without what was set aside."""
    return {name: (mode, data) for name, (_, mode, data) in tree(root).items() if not is_own(name)}


def is_own(name: str) -> bool:
    return name.rpartition("/")[2].startswith(".remit-")


def state(content: str, mode: int = 0o644) -> State:
    return state_of(content.encode(), mode)


# --- a process that dies ---------------------------------------------------------------------------------------------

_WATCHED: Final = (
    (beneath, "_renameat2"),
    *((os, name) for name in ("unlink", "fsync", "write", "open", "ftruncate", "copy_file_range", "pwrite")),
)


def in_child(do: Callable[[], object], die_at: int) -> int | None:
    """Run it in a process of its own, which ends without a word at that system call, before or after it.

    None if it died there; else how many such moments there were.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            moments = _arm(die_at)
            do()
            _REAL["write"](writer, moments().to_bytes(4, "big"))
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    answer = os.read(reader, 4)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    ended = os.waitstatus_to_exitcode(status)
    assert ended in {0, KILLED}, "it neither ended nor died where it should"
    return int.from_bytes(answer, "big") if ended == 0 else None


_REAL: Final[dict[str, Any]] = {name: getattr(module, name) for module, name in _WATCHED}


def _arm(die_at: int) -> Callable[[], int]:
    count = 0

    def tick() -> None:
        nonlocal count
        count += 1
        if count == die_at:
            os._exit(KILLED)

    def watched(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            tick()
            answer = _REAL[name](*arguments, **named)
            tick()
            return answer

        return call

    for module, name in _WATCHED:
        setattr(module, name, watched(name))
    return lambda: count
