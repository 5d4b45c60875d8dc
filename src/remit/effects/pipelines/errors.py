"""Errors of pipeline steps: the exception, the line of the project's own code, and a hint about the cause.

The most frequent cause is that a step uses something that a pipeline does not have. Names of modules and of their
members are names of code and are written without quotes; quotes are for values. An error text may contain values. The
host reads it as data and decides what is shown.
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
    "A pipeline can import the packages of `pipeline_packages`, the standard library, and packages that are installed "
    "with Remit."
)
FILES: Final = "A pipeline has only the files in its `reads` and `writes`, at the same path below the root."
NETWORK: Final = "A pipeline has no network. Let it read a file that its `reads` names."
REFUSED: Final = "A pipeline has only the files in its `reads` and `writes`, no other program and no network."

_MOST_CAUSES: Final = 10
_LONGEST: Final = 200
_OF_NETWORK: Final = (socket.gaierror, socket.herror, ConnectionError)
_NOT_IN_MODULE: Final = re.compile(r"cannot import name '(\w+)' from (?:partially initialized module )?'([\w.]+)'")
_NAME: Final = re.compile(r"[A-Za-z_][\w.]*")


def hint_for(problem: BaseException) -> str:
    """Return a hint as a sentence. Empty if the error has nothing to do with the limits of a pipeline."""
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
    """Say which module, or which name in a module, is missing. Empty if the error is about something else."""
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
    """Return the error and its causes, the innermost first, because libraries wrap the errors of the system."""
    found: list[BaseException] = []
    each: BaseException | None = problem
    while each is not None and len(found) < _MOST_CAUSES:
        found.append(each)
        each = each.__cause__ or each.__context__
    return found[::-1]


def _is_of_sockets(problem: BaseException) -> bool:
    """Whether the error comes from the standard library's code for sockets."""
    frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(problem.__traceback__)]
    return bool(frames) and frames[-1] == socket.__file__


LONGEST: Final = 1_000
_OURS: Final = os.path.dirname(__file__)


class StepFailedError(EnvironmentFailureError):
    """A failure of the project's program, not of Remit."""

    def __init__(self, what: str, *, where: str = "", next_step: str = "") -> None:
        super().__init__(Reason.PIPELINE_FAILED, " ".join(what[:LONGEST].split()), where=where, next_step=next_step)


def raised(problem: BaseException, root: str, *, next_step: str = "") -> StepFailedError:
    """Return the error for an exception of a step. Its traceback goes to the log, if it can be printed."""
    try:
        traceback.print_exception(type(problem), problem, _project_frames(problem.__traceback__), file=sys.stderr)
    except Exception:  # noqa: BLE001 - an exception of the project may raise when it is printed
        print("the traceback cannot be printed", file=sys.stderr)  # noqa: T201 - to the program's log
    return StepFailedError(
        f"{type(problem).__name__}: {_describe(problem)}", where=_place(problem, root), next_step=next_step
    )


def _project_frames(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback without the frames of Remit at its beginning."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    return trace


def _describe(problem: BaseException) -> str:
    if isinstance(problem, SystemExit):
        return "a step must return and must not exit"
    try:
        return in_names_of_code(problem) or str(problem)[:LONGEST]
    except BaseException:  # noqa: BLE001 - as above, and SystemExit must not end this process
        return "the exception has no text"


def _place(problem: BaseException, root: str) -> str:
    """Return the innermost line of the project's own code in the traceback."""
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
