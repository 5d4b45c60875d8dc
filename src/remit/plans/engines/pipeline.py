"""Host side of pipelines: runs a program of the project in a sandboxed process on copies, and parses its reports.

The project's own code may have written anything that this process sends: steps, row counts, log. All of it is untrusted
data. It is checked for form, truncated, masked and made printable. The program itself reports success. The host
determines its changes from the folder, after the process is dead.
"""

import importlib.util
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from remit.core.errors import EnvironmentFailureError, Reason, RefusedError, RemitError, render_line
from remit.effects.registry import PathUse
from remit.fs.atomic_write import disk_failure
from remit.plans.engines.pipeline_log import new_log, read_log, without_parameters, without_values
from remit.plans.model.folders_cleanup import remove_tree
from remit.sandbox.host import CancelledError, SandboxHost
from remit.sandbox.orders import Build, FolderGrant, Order

EFFECT: Final = "remit.effects.pipelines.engine:RUN"
BUILD: Final = Build(program=True, open_files=512)

MAX_NODES: Final = 500
"""The maximum number of steps that a dbt run can report. Their number is not known in advance."""
MAX_FILES: Final = 200_000

_LONGEST_NAME: Final = 200
_LONGEST_MESSAGE: Final = 500
_MOST_ROWS: Final = 1 << 53
_PROCESS_NAME: Final = "the task's process"
_PASSED_ON: Final = frozenset({Reason.SANDBOX_UNAVAILABLE, Reason.CANCELLED})

State = Literal["done", "failed", "skipped"]
OnStep = Callable[[int, int, str], None]


class StepReport(NamedTuple):
    """The report of one step, masked and printable."""

    name: str
    state: State
    rows: int | None
    seconds: float
    words: str


class PipelineResult(NamedTuple):
    """The result of a pipeline: its steps in order, the end of the log, and the error if it failed."""

    steps: tuple[StepReport, ...]
    log: tuple[str, ...]
    problem: RemitError | None


class DbtCall(NamedTuple):
    """A call of dbt. Paths are relative to the folder that it runs in."""

    project: str
    database: str
    command: str
    select: tuple[str, ...]


class Program(NamedTuple):
    """A request to run a program."""

    kind: Literal["python", "dbt"]
    steps: tuple[str, ...]
    """`package.module:function`, in order. Empty for dbt, whose nodes are the steps."""
    parameters: Mapping[str, Any]
    dbt: DbtCall | None
    seconds: float


class PipelineEngine:
    """Runs programs one after the other, for one request. The sandbox is requested when the first one runs."""

    def __init__(self, host: Callable[[], SandboxHost], task_id: str, is_cancelled: Callable[[], bool]) -> None:
        self._host = host
        self._task_id = task_id
        self._is_cancelled = is_cancelled

    def run(self, program: Program, scratch: Path, *, on_step: OnStep) -> PipelineResult:
        """Run the program in `scratch`, where it may read, change and remove everything. On return the process is dead.

        A failure of the program is part of the result. Raises `CancelledError`, or an error if there can be no sandbox.
        `on_step` gets the number of a step, the number of all steps (0 if unknown), and a text.
        """
        if program.kind == "dbt":
            require_dbt()
        reported, files = _ReportedSteps(program, scratch, on_step), _FileCounter(scratch)
        with new_log(scratch) as log:
            process = self._host().prewarm(self._order(program, scratch), given={"log": log})
            with process:
                problem: RemitError | None = None
                try:
                    process.run(
                        on_progress=reported.progress,
                        on_step=reported.step,
                        is_cancelled=lambda: files.are_too_many() or self._is_cancelled(),
                    )
                except CancelledError:
                    if not files.are_too_many():
                        raise
                    problem = reported.failure(too_many_files_error())
                except RemitError as ended:
                    if ended.reason in _PASSED_ON:
                        raise
                    problem = reported.failure(ended)
            if problem is None:
                problem = reported.incomplete_error()
            return PipelineResult(reported.reports(), read_log(log, scratch, program.parameters), problem)

    def _order(self, program: Program, scratch: Path) -> Order:
        # Each step may use the whole time. The limit of the whole ends the run, with a message of the host.
        count = len(program.steps) if program.kind == "python" else MAX_NODES
        return Order(
            effect=EFFECT,
            call="run",
            task_id=self._task_id,
            capability_id="PIPELINE_RUN",
            inputs={
                "kind": program.kind,
                "steps": list(program.steps),
                "parameters": dict(program.parameters),
                "dbt": None if program.dbt is None else program.dbt._asdict(),
            },
            reversible=True,
            part_name="",
            places={"scratch": FolderGrant(str(scratch), (), "", PathUse.WORK)},
            seconds=program.seconds,
            paces=(2 * program.seconds + 1,) * count,
        )


class _FileCounter:
    """Counts new files by the free inodes of the disk. Empty files use no bytes, but a disk has a limited number of
    inodes.

    Limit: other programs on that disk are counted too. Some filesystems do not report a number.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._free = self._now()
        self._are_too_many = False

    def are_too_many(self) -> bool:
        self._are_too_many = self._are_too_many or self._free - self._now() > MAX_FILES
        return self._are_too_many

    def _now(self) -> int:
        return os.statvfs(self._folder).f_ffree


def too_many_files_error() -> RemitError:
    return EnvironmentFailureError(
        Reason.RESOURCE_EXHAUSTED,
        f"more than {MAX_FILES:,} files were created on the disk of the pipeline while it ran",
        next_step="Let the pipeline create fewer files. If it creates few, another program caused this: try again.",
    )


def require_dbt() -> None:
    """Require the optional packages. They are not imported here, because this process has the keys."""
    for package in ("dbt.cli", "dbt.adapters.duckdb"):
        if not _is_installed(package):
            raise RefusedError(
                Reason.CAPABILITY_UNSUPPORTED,
                "dbt with its adapter for DuckDB is not installed, and a plan that runs dbt needs it",
                next_step="Install it with: pip install 'remit[dbt]'",
            )


def _is_installed(package: str) -> bool:
    """Whether the package exists, without importing it or its parents. Only checks for folders."""
    top, *below = package.split(".")
    spec = importlib.util.find_spec(top)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return any(Path(place, *below).is_dir() for place in places)


def clear_scratch(scratch: Path) -> None:
    """Remove all files that a program left, and the folder itself."""
    try:
        remove_tree(scratch)
    except OSError as problem:
        raise disk_failure(problem, scratch) from problem


# --- reported steps --------------------------------------------------------------------------------------------------


class _ReportedSteps:
    """The steps of one run, as its process reported them."""

    def __init__(self, program: Program, scratch: Path, on_step: OnStep) -> None:
        self._program = program
        self._scratch = scratch
        self._on_step = on_step
        self._names = {number: name(step) for number, step in enumerate(program.steps)}
        self._total = len(program.steps)
        self._started: dict[int, float] = {}
        self._reports: dict[int, StepReport] = {}
        self._current: int | None = None
        self._reason: Mapping[str, str] | None = None

    def step(self, message: Mapping[str, Any]) -> None:
        """Record a message about a step. Its number and phase were checked on arrival."""
        number, phase = message["number"], message["phase"]
        if self._program.kind == "dbt":
            self._names.setdefault(number, name(message.get("name")))
            self._total = _rows(message.get("total")) or self._total
        if phase == "begun":
            self._started[number] = time.monotonic()
            self._current = number
            self._on_step(number + 1, self._total, self._names[number])
        elif phase in ("done", "failed", "skipped"):
            self._end(number, phase, message)

    def progress(self, done: int, total: int) -> None:
        """Record progress, in hundredths of a step."""
        if self._current is not None and total > 0:
            part = min(max(done - 100 * self._current, 0), 100)
            self._on_step(self._current + 1, self._total, f"{self._names[self._current]}, {part} %")

    def _end(self, number: int, state: State, message: Mapping[str, Any]) -> None:
        error = message.get("error") or {}
        if state == "failed" and self._reason is None:
            self._reason = {**error, "step": self._names[number]}
        text = error.get("what", "") if state == "failed" else message.get("words", "")
        spent = time.monotonic() - self._started.get(number, time.monotonic())
        if self._program.kind == "dbt":
            spent = _seconds(message.get("seconds"), spent)
        self._reports[number] = StepReport(
            self._names[number], state, _rows(message.get("rows")), spent, self._clean_text(text)
        )
        if self._current == number:
            self._current = None

    def reports(self) -> tuple[StepReport, ...]:
        """Return a report for each step. A running step has failed, and a step that did not start is skipped."""
        for number, step_name in self._names.items():
            if number not in self._reports:
                began = self._started.get(number)
                spent = time.monotonic() - began if began is not None else 0.0
                self._reports[number] = StepReport(
                    step_name, "failed" if began is not None else "skipped", None, spent, ""
                )
        return tuple(self._reports[number] for number in sorted(self._reports))

    def failure(self, ended: RemitError) -> RemitError:
        """Return the reason of the failure: the error that the program reported, or how its process ended."""
        step = self._names.get(self._current) if self._current is not None else None
        if ended.reason is Reason.TIMED_OUT:
            return EnvironmentFailureError(
                Reason.TIMED_OUT,
                f"the pipeline took longer than {self._program.seconds:g} seconds",
                where=f"step {step}" if step else "",
                next_step="Simplify it, or raise its limit: `timeout_seconds` of the action, or of the pipeline.",
            )
        if self._reason is None and ended.reason is Reason.RESOURCE_EXHAUSTED:
            return EnvironmentFailureError(
                ended.reason,
                self._clean_text(ended.what),
                where=f"step {step}" if step else "",
                next_step=self._clean_text(ended.next_step),
            )
        why = self._reason or {
            **ended.as_json(),
            "what": ended.what.replace(_PROCESS_NAME, "its process"),
            "step": step or "",
        }
        about = f"step {why['step']} failed" if why["step"] else "the pipeline failed"
        return EnvironmentFailureError(
            Reason.PIPELINE_FAILED,
            f"{about}: {self._clean_text(why['what'])}",
            where=self._clean_text(why["where"]),
            next_step=self._clean_text(why["next_step"]) or "Fix the pipeline, and plan again. Nothing was changed.",
        )

    def incomplete_error(self) -> RemitError | None:
        """Return an error if the program reports success although one of its steps failed or is missing."""
        ends = {one.state for one in self._reports.values()}
        missing = self._names.keys() - self._reports.keys()
        if missing or "failed" in ends or (self._program.kind == "python" and ends - {"done"}):
            return EnvironmentFailureError(
                Reason.PIPELINE_FAILED,
                "the pipeline reported success, but not all of its steps are done",
                next_step="Make sure that no step ends its process or writes to the channel of that process.",
            )
        return None

    def _clean_text(self, text: Any) -> str:
        """Return the text on one line, without values. Before a dbt node starts, no row is read, so quoted names may
        stay.
        """
        plain = " ".join(text.split()) if isinstance(text, str) else ""
        plain = without_parameters(plain.replace(f"{self._scratch}/", ""), self._program.parameters)
        may_hold_rows = self._program.kind == "python" or bool(self._started)
        return render_line(without_values(plain) if may_hold_rows else plain)[:_LONGEST_MESSAGE]


def name(value: Any) -> str:
    return render_line(value[:_LONGEST_NAME])[:_LONGEST_NAME] if isinstance(value, str) and value else "a step"


def _rows(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < _MOST_ROWS else None


def _seconds(value: Any, otherwise: float) -> float:
    return value if type(value) is float and 0.0 <= value < 1e9 else otherwise
