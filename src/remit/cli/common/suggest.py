"""Commands that messages suggest. They have the options with which they run in the same workspace as this one."""

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from remit.core.text import printable


class LocationOptions(NamedTuple):
    """The options for the workspace and the tenant."""

    directory: Path = Path()
    tenant_id: str | None = None

    @property
    def directory_arguments(self) -> tuple[str, ...]:
        return () if self.directory == Path() else ("-C", str(self.directory))

    @property
    def arguments(self) -> tuple[str, ...]:
        return (*self.directory_arguments, *(("--tenant", self.tenant_id) if self.tenant_id is not None else ()))


def quote_argument(text: str) -> tuple[str, ...]:
    """Return the argument, after `--` if it would otherwise be read as an option."""
    return ("--", text) if text.startswith("-") else (text,)


def joined(arguments: Iterable[str]) -> str:
    return shlex.join(map(printable, arguments))
