"""Why a step may have failed: most often it looks for something that a pipeline is not given.

The names of modules, and of what is in them, are names of code: they are said without the quotes in which values stand.
"""

import re
import socket
import traceback
from types import ModuleType
from typing import Final

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
