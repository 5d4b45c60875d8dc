"""Runs a pipeline of functions. Each is called in turn with a job. The first failure ends the pipeline.

    def run(job):
        rows = clean(job.parameters["day"])
        job.log("cleaned")
        return rows

A step returns nothing, the number of rows that it handled, or {"rows": number}. It may start threads. Threads that
still run when the last step has returned end with the process.
"""

import importlib
import sys
import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from remit.effects.context import EffectContext
from remit.effects.pipelines.errors import StepFailedError, hint_for, raised

_PARTS: Final = 100
_MOST_ROWS: Final = 1 << 53


class PipelineStep:
    """The job that a step receives: its parameters, and functions for progress and log."""

    def __init__(
        self, work: EffectContext, parameters: Mapping[str, Any], place: tuple[int, int], turn: threading.Lock
    ) -> None:
        self.parameters: Final[Mapping[str, Any]] = MappingProxyType(dict(parameters))
        self._work = work
        self._number, self._total = place
        self._last_progress = 0
        self._turn = turn

    def progress(self, done: float, total: float) -> None:
        """Report how much of this step is done. May be called often: the host gets at most 100 reports for a step."""
        part = int(_PARTS * min(max(done / total, 0.0), 1.0)) if total > 0 else 0
        with self._turn:
            if part > self._last_progress:
                self._last_progress = part
                self._work.progress(self._number * _PARTS + part, self._total * _PARTS)

    def log(self, text: object) -> None:
        print(text, file=sys.stderr)  # noqa: T201 - standard error is the log


def run_steps(work: EffectContext, root: str, steps: Sequence[str], parameters: Mapping[str, Any]) -> None:
    """Run the steps. Raise the error of the first step that fails, after reporting it to the host."""
    turn = threading.Lock()
    for number, name in enumerate(steps):
        with turn:
            work.step({"number": number, "phase": "begun"})
        try:
            rows = rows_of(call(name, PipelineStep(work, parameters, (number, len(steps)), turn)))
        except MemoryError:
            raise
        except StepFailedError as problem:
            failed = problem
        except BaseException as problem:  # noqa: BLE001 - a step may raise anything, SystemExit too
            failed = raised(problem, root, next_step=_hint(problem))
        else:
            with turn:
                work.step({"number": number, "phase": "done", "rows": rows})
            continue
        with turn:
            work.step({"number": number, "phase": "failed", "error": failed.as_json()})
        raise failed


def _hint(problem: BaseException) -> str:
    try:
        return hint_for(problem)
    except Exception:  # noqa: BLE001 - an exception of the project may raise when it is read
        return ""


def call(name: str, job: PipelineStep) -> Any:
    """Call `package.module:function`, from the folder of the project or from an installed package."""
    module, _, attribute = name.partition(":")
    function = getattr(importlib.import_module(module), attribute, None)
    if not callable(function):
        raise StepFailedError(f"the module {module} has no function {attribute}")
    return function(job)


def rows_of(returned: Any) -> int | None:
    if returned is None:
        return None
    rows = returned.get("rows") if type(returned) is dict and returned.keys() == {"rows"} else returned
    if type(rows) is not int or not 0 <= rows < _MOST_ROWS:
        raise StepFailedError(
            f"the step returned a value of the type {type(returned).__name__}",
            next_step='A step returns None, a number of rows, or {"rows": number}.',
        )
    return rows
