"""What the sandboxed process that talks to a PostgreSQL server is asked for, as an order."""

import json
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from remit.core.errors import Reason, Refused
from remit.effects.registry import PathUse
from remit.plans.engines.database_files import WorkFolder
from remit.sandbox.orders import Order, Place

EFFECT: Final = "remit.effects.postgres.engine:RUN"
_GRACE_SECONDS: Final = 2.0
"""The server stops a statement first, and says so; this process only kills."""


class Text(NamedTuple):
    """One text of SQL. Several may have the same number: an action with several files."""

    number: int
    name: str
    """For messages."""
    text: bytes
    parameters: Mapping[str, Any]
    expect_results: bool
    results: Path | None
    """A new file, in a folder of its own."""
    form: str | None


class Call(NamedTuple):
    """One of the things that the effect can be asked for."""

    mode: str
    inputs: dict[str, Any]
    seconds: float
    given: Mapping[str, int] = {}
    texts: bytes | None = None
    places: Mapping[str, Place] = {}
    images: Path | None = None

    def order(self, task_id: str) -> Order:
        return Order(
            effect=EFFECT,
            call="run",
            task_id=task_id,
            capability_id="SQL_EXECUTE",
            inputs={**self.inputs, "mode": self.mode, "seconds": self.seconds},
            reversible=True,
            part_name="",
            places=self.places,
            network=True,
            seconds=self.seconds + _GRACE_SECONDS,
        )


def texts_call(mode: str, texts: Sequence[Text], *, reads_only: bool, seconds: float, folder: WorkFolder) -> Call:
    images = folder.folder("images") / secrets.token_hex(8)
    places = {"images": _place(images)}
    said = []
    for place, text in enumerate(texts):
        spot = None if text.results is None else f"results {place}"
        if text.results is not None and spot is not None:
            places[spot] = _place(text.results)
        said.append({**text._asdict(), "text": _decoded(text), "results": spot, "parameters": dict(text.parameters)})
    return Call(mode, {"reads_only": reads_only}, seconds, {}, json.dumps(said).encode(), places, images)


def _place(path: Path) -> Place:
    return Place(str(path.parents[1]), (path.parent.name,), path.name, PathUse.MAKE)


def _decoded(text: Text) -> str:
    try:
        return text.text.decode()
    except UnicodeDecodeError:
        raise Refused(
            Reason.SQL_REFUSED, "it is not UTF-8 text", where=text.name, next_step="Save it as UTF-8."
        ) from None
