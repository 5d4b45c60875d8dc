"""How a step ended badly, in words: what was raised, and where in the project's own code.

The words may hold values: the host, which reads them as data, sees to what is told.
"""

import os
import sys
import traceback
from types import TracebackType
from typing import Final

from remit.core.errors import EnvironmentFailed, Reason
from remit.effects.pipelines.errors_hints import in_names_of_code

LONGEST: Final = 1_000
_OURS: Final = os.path.dirname(__file__)


class StepFailed(EnvironmentFailed):
    """The program's failure, not ours."""

    def __init__(self, what: str, *, where: str = "", next_step: str = "") -> None:
        super().__init__(Reason.PIPELINE_FAILED, " ".join(what[:LONGEST].split()), where=where, next_step=next_step)


def raised(problem: BaseException, root: str, *, next_step: str = "") -> StepFailed:
    """What a step raised. Its traceback goes to the log, as far as it can be told at all."""
    try:
        traceback.print_exception(type(problem), problem, _of_the_project(problem.__traceback__), file=sys.stderr)
    except Exception:  # noqa: BLE001 - an exception of the project's own may raise when it is looked at
        print("the traceback cannot be told", file=sys.stderr)  # noqa: T201 - to the program's log
    return StepFailed(f"{type(problem).__name__}: {_words(problem)}", where=_place(problem, root), next_step=next_step)


def _of_the_project(trace: TracebackType | None) -> TracebackType | None:
    """Without the frames of ours that it begins with."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace


def _words(problem: BaseException) -> str:
    if isinstance(problem, SystemExit):
        return "a step must return, and not exit"
    try:
        return in_names_of_code(problem) or str(problem)[:LONGEST]
    except BaseException:  # noqa: BLE001 - as above, and it may not end us either
        return "it has no words"


def _place(problem: BaseException, root: str) -> str:
    """The last line of the project's own code that was at work."""
    if isinstance(problem, SyntaxError) and problem.filename is not None and problem.filename.startswith(root):
        return f"{os.path.relpath(problem.filename, root)}, line {problem.lineno}"
    found = ""
    trace: TracebackType | None = problem.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name.startswith(root):
            found = f"{os.path.relpath(name, root)}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return found
