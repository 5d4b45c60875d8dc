"""Why a step may have failed: most often it looks for something that a pipeline is not given.

The names of modules, and of what is in them, are names of code: they are said without the quotes in which values stand.

How a step ended badly, in words: what was raised, and where in the project's own code.

The words may hold values: the host, which reads them as data, sees to what is told.
"""

import os
import re
import socket
import sys
import traceback
from types import ModuleType, TracebackType
from typing import Final

from remit.core.errors import EnvironmentFailureError, Reason

IMPORTS: Final = (
    "A pipeline can import the packages of `pipeline_packages`, the standard library, and what is installed "
    "beside Remit."
)
FILES: Final = "Only what `reads` and `writes` of the pipeline name is there, under the same path below the root."
NETWORK: Final = "A pipeline has no network: let it read a file instead, one of its `reads`."
REFUSED: Final = "A pipeline sees only what its `reads` and `writes` name, starts no other program, and has no network."

_MOST_CAUSES: Final = 10
_LONGEST: Final = 200
_OF_NETWORK: Final = (socket.gaierror, socket.herror, ConnectionError)
_NOT_IN_MODULE: Final = re.compile(r"cannot import name '(\w+)' from (?:partially initialized module )?'([\w.]+)'")
_NAME: Final = re.compile(r"[A-Za-z_][\w.]*")


def hint_for(problem: BaseException) -> str:
    """In a sentence; empty if it has nothing to do with where the step runs."""
    for each in _with_causes(problem):
        if isinstance(each, ImportError):
            return IMPORTS
        if isinstance(each, _OF_NETWORK) or (isinstance(each, OSError) and _is_of_sockets(each)):
            return NETWORK
        if isinstance(each, FileNotFoundError):
            return FILES
        if isinstance(each, PermissionError):
            return REFUSED
    return ""


def in_names_of_code(problem: BaseException) -> str:
    """What a module lacks, or that there is none; empty if it is about something else."""
    if isinstance(problem, ModuleNotFoundError):
        return f"there is no module {problem.name}" if _is_name(problem.name) else ""
    if isinstance(problem, ImportError):
        found = _NOT_IN_MODULE.match(str(problem)[:_LONGEST])
        return f"there is no {found[1]} in the module {found[2]}" if found else ""
    if isinstance(problem, AttributeError) and isinstance(problem.obj, ModuleType) and _is_name(problem.name):
        module = problem.obj.__name__
        return f"there is no {problem.name} in the module {module}" if _is_name(module) else ""
    return ""


def _is_name(name: object) -> bool:
    return isinstance(name, str) and len(name) <= _LONGEST and _NAME.fullmatch(name) is not None


def _with_causes(problem: BaseException) -> list[BaseException]:
    """The innermost first: libraries raise their own words for what the system refused."""
    found: list[BaseException] = []
    each: BaseException | None = problem
    while each is not None and len(found) < _MOST_CAUSES:
        found.append(each)
        each = each.__cause__ or each.__context__
    return found[::-1]


def _is_of_sockets(problem: BaseException) -> bool:
    """Whether it was the standard library's own code for sockets that was refused."""
    frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(problem.__traceback__)]
    return bool(frames) and frames[-1] == socket.__file__


LONGEST: Final = 1_000
_OURS: Final = os.path.dirname(__file__)


class StepFailedError(EnvironmentFailureError):
    """The program's failure, not ours."""

    def __init__(self, what: str, *, where: str = "", next_step: str = "") -> None:
        super().__init__(Reason.PIPELINE_FAILED, " ".join(what[:LONGEST].split()), where=where, next_step=next_step)


def raised(problem: BaseException, root: str, *, next_step: str = "") -> StepFailedError:
    """What a step raised. Its traceback goes to the log, as far as it can be told at all."""
    try:
        traceback.print_exception(type(problem), problem, _project_frames(problem.__traceback__), file=sys.stderr)
    except Exception:  # noqa: BLE001 - an exception of the project's own may raise when it is looked at
        print("the traceback cannot be told", file=sys.stderr)  # noqa: T201 - to the program's log
    return StepFailedError(
        f"{type(problem).__name__}: {_describe(problem)}", where=_place(problem, root), next_step=next_step
    )


def _project_frames(trace: TracebackType | None) -> TracebackType | None:
    """Without the frames of ours that it begins with."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace


def _describe(problem: BaseException) -> str:
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
