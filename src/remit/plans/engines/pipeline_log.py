"""What a program of the project says, made fit to be told: no parameter, no value, no secret, no end of it unseen."""

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
"""Less than the program itself keeps of a long one."""
_UNSURE_BYTES: Final = 32 << 10
"""At the beginning of a log that was cut there may be the rest of a key, which does not look like one any more."""
_SHORT: Final = 4
# Not after two letters: that is an apostrophe.
_QUOTED: Final = re.compile(r"(?<!\w\w)'[^']*'?|\"[^\"]*\"?|\d{5,}")
_A_NAME: Final = re.compile(r"\"[A-Za-z_]\w{0,62}\"")


def without_values(message: str) -> str:
    """Without what is in quotes or a long number: so exceptions name the values they are of. A name may stay."""
    return _QUOTED.sub(lambda found: found[0] if _A_NAME.fullmatch(found[0]) else "...", message)


def without_parameters(text: str, parameters: Mapping[str, Any]) -> str:
    """They may be anything, a password too. Short ones stay: they are in many words."""
    for value in sorted(set(_texts(parameters)), key=len, reverse=True):
        text = text.replace(value, "...")
    return text


def _texts(value: Any) -> Iterator[str]:
    """Those that are long enough to be somebody's, and not a word like any other."""
    if isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)
    elif not isinstance(value, bool) and value is not None and len(str(value)) >= _SHORT:
        yield str(value)


def read_log(log: int, scratch: Path, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """The last lines. Masked as a whole, since a key may have many lines, before anything is cut.

    Files are named as in the project: where the copies lay is of no use to anybody.
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
    """A file without a name, on the disk that the program writes to. The program has a copy of the descriptor."""
    try:
        file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - opening it may fail, not what is done with it
    except OSError as problem:
        raise disk_failure(problem, folder) from problem
    with file:
        yield file.fileno()
