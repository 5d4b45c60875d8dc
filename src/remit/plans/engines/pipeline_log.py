"""Sanitizing of the output of a project's program: removes parameters, values and secrets, and marks every cut."""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from remit.fs.atomic_write import disk_failure
from remit.plans.model.simulation_result import show_text

MAX_LOG_LINES: Final = 200
LONGEST_LINE: Final = 500

_LOG_BYTES: Final = 192 << 10
"""Less than the program itself keeps of a long log."""
_UNSURE_BYTES: Final = 32 << 10
"""The start of a cut log may hold the rest of a key, which is not recognised as one any more."""
_SHORT: Final = 4
# Not after two letters, which would be an apostrophe.
_QUOTED: Final = re.compile(r"(?<!\w\w)'[^']*'?|\"[^\"]*\"?|\d{5,}")
_A_NAME: Final = re.compile(r"\"[A-Za-z_]\w{0,62}\"")


def without_values(message: str) -> str:
    """Remove quoted text and long numbers, because exceptions quote values in this form. A quoted name may stay."""
    return _QUOTED.sub(lambda found: found[0] if _A_NAME.fullmatch(found[0]) else "...", message)


def without_parameters(text: str, parameters: Mapping[str, Any]) -> str:
    """Remove the parameter values, which may be passwords. Short ones stay, because they are part of many words."""
    for value in sorted(set(_texts(parameters)), key=len, reverse=True):
        text = text.replace(value, "...")
    return text


def _texts(value: Any) -> Iterator[str]:
    """Yield the values that are too long to be a part of ordinary words."""
    if isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)
    elif not isinstance(value, bool) and value is not None and len(str(value)) >= _SHORT:
        yield str(value)


def read_log(log: int, scratch: Path, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the last lines of the log. It is masked as a whole before it is cut, because a key may have many lines.

    Files are named as in the project, not by the path of their copies.
    """
    size = os.fstat(log).st_size
    start = max(size - _LOG_BYTES, 0)
    text = os.pread(log, _LOG_BYTES, start).decode("utf-8", "replace").replace("\r\n", "\n")
    lines_read = show_text(without_parameters(text.replace(f"{scratch}/", ""), parameters))
    if start:
        lines_read = lines_read[_UNSURE_BYTES:].partition("\n")[2]
    lines = lines_read.rstrip("\n").split("\n")[-MAX_LOG_LINES:] if lines_read.strip() else []
    return tuple(line.replace("\t", "    ")[:LONGEST_LINE] for line in lines)


@contextmanager
def new_log(folder: Path) -> Iterator[int]:
    """Open a file without a name, on the disk that the program writes to. The program gets a copy of the descriptor."""
    try:
        file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - only opening it may raise OSError here
    except OSError as problem:
        raise disk_failure(problem, folder) from problem
    with file:
        yield file.fileno()
