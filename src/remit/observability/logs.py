"""Logs as JSON lines: each record is one line, and every text in it is masked.

A record may contain newlines, terminal escapes, half a character, an object that cannot be printed, or a megabyte. It
is written as one ASCII line of bounded size. Logging never raises into the work that it reports on. Limit: a record
that cannot be written, because the disk is full or the reader has gone, is lost without notice. The evidence is in the
ledger; logs are for people who look for a fault.
"""

import contextlib
import json
import logging
import math
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from remit.core.errors import Reason, RefusedError, render_line
from remit.core.ids import render_time
from remit.masking import Json, mask_json, mask_text

LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
IDS: Final = ("request_id", "trace_id", "correlation_id", "task_id", "capability_id", "plan_id", "tenant_id")
"""The ids that records are searched by. They are at the top level of a record; every other extra is in `fields`."""

MAX_TEXT: Final = 2_000
MAX_ID: Final = 200
MAX_TRACE: Final = 8_000
MAX_RECORD: Final = 65_536
MAX_DEPTH: Final = 6
# More is read and masked than is kept: a secret that the first cut divides is not recognised, and the second cut
# removes it.
_MAX_READ: Final = 32_768
_CUT_EDGE: Final = 4_096
_MAX_VALUES: Final = 200
_WIDEST_INTEGER: Final = 64

_ids: ContextVar[Mapping[str, str]] = ContextVar("remit_log_ids", default={})  # noqa: B039 - only ever replaced
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


@contextlib.contextmanager
def bind_ids(**ids: str) -> Iterator[None]:
    """Add these ids to every record made inside, in this thread and in the tasks that it starts."""
    token = _ids.set({**_ids.get(), **ids})
    try:
        yield
    finally:
        _ids.reset(token)


def current_ids() -> Mapping[str, str]:
    """Return the ids that are bound now."""
    return _ids.get()


def parse_level(text: str) -> int:
    """Return the level with this name, as in REMIT_LOG."""
    level = LEVELS.get(text.strip().lower())
    if level is None:
        raise RefusedError(
            Reason.MALFORMED,
            f"there is no log level {text!r}",
            where="REMIT_LOG",
            next_step=f"Use one of: {', '.join(LEVELS)}.",
        )
    return level


def configure_logging(stream: TextIO, level: int) -> logging.Handler:
    """Send Remit's records from `level` up, and other libraries' warnings, to `stream`.

    A second call replaces the first.
    """
    root = logging.getLogger()
    for handler in list(root.handlers):
        if isinstance(handler, JsonLinesHandler):
            root.removeHandler(handler)
    fresh = JsonLinesHandler(stream)
    root.addHandler(fresh)
    root.setLevel(logging.WARNING)
    logging.getLogger("remit").setLevel(level)
    return fresh


def configure_warnings(stream: TextIO) -> logging.Handler:
    """Send warnings alone to `stream`, as sentences. Used without REMIT_LOG. A second call replaces the first."""
    root = logging.getLogger()
    for handler in list(root.handlers):
        if isinstance(handler, TextHandler):
            root.removeHandler(handler)
    fresh = TextHandler(stream)
    fresh.setLevel(logging.WARNING)
    root.addHandler(fresh)
    return fresh


class TextHandler(logging.Handler):
    """Writes each record as one line of plain text."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(Exception):  # logging never raises, as in JsonLinesHandler
            self._stream.write(render_text(record) + "\n")
            self._stream.flush()


def render_text(record: logging.LogRecord) -> str:
    """Return one masked line: the level, the message, and the ids and fields of the record. Never raises."""
    try:
        document = _document(record)
        named = {name: document[name] for name in IDS if name in document}
        fields = document.get("fields")
        named |= fields if isinstance(fields, dict) else {}
        rest = ", ".join(f"{name}: {_text_of(value)}" for name, value in named.items())
        return render_line(f"{document['level']}: {document['message']}" + (f" ({rest})" if rest else ""))
    except Exception as problem:  # noqa: BLE001 - as in `render_record`
        return f"error: a record was lost: {type(problem).__name__}"


class JsonLinesHandler(logging.Handler):
    """Writes each record as one JSON line with one call, so that threads do not mix their lines."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def emit(self, record: logging.LogRecord) -> None:
        # Not `handleError`: it would print the record, unmasked, to standard error.
        with contextlib.suppress(Exception):
            self._stream.write(render_record(record) + "\n")
            self._stream.flush()


def render_record(record: logging.LogRecord) -> str:
    """Return the record as one line of JSON: ASCII only, at most `MAX_RECORD` characters. Never raises."""
    try:
        document = _document(record)
        line = json.dumps(document, allow_nan=False)
        if len(line) > MAX_RECORD:
            shortened = {name: value for name, value in document.items() if name not in {"fields", "error"}}
            line = json.dumps({**shortened, "truncated": True}, allow_nan=False)
    except Exception as problem:  # noqa: BLE001 - a fault of logging must not stop the work
        lost = f"a record was lost: {type(problem).__name__}"
        return json.dumps({"level": "error", "logger": __name__, "message": lost})
    return line


def _document(record: logging.LogRecord) -> dict[str, Any]:
    extras = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    level = record.levelname.lower()
    document: dict[str, Any] = {
        "ts": render_time(datetime.fromtimestamp(record.created, UTC)),
        "level": level if level in {*LEVELS, "critical"} else f"level {record.levelno}",
        "logger": _mask(record.name, limit=MAX_ID),
        "message": _mask(_message(record)),
    }
    bound = _ids.get()
    for name in IDS:
        value = extras.pop(name, None) or bound.get(name)
        if value:
            document[name] = _mask(_text_of(value), limit=MAX_ID)
    if extras:
        document["fields"] = _fields(extras)
    if record.exc_info and record.exc_info[1] is not None:
        document["error"] = _error(record.exc_info[1])
    return document


def _fields(extras: dict[str, object]) -> Any:
    try:
        return _shorten(mask_json(_PlainCopier().copy(extras)))
    except Exception as problem:  # noqa: BLE001 - a container of another library that cannot be walked
        return {"unreadable": type(problem).__name__}


def _error(problem: BaseException) -> dict[str, str]:
    trace = "".join(traceback.format_exception(problem, limit=-20))
    # A long trace keeps its end, because the end names the error and its nearest cause.
    text = _mask(trace, limit=MAX_TRACE, keeps_end=True)
    return {"type": type(problem).__name__, "message": _mask(_text_of(problem)), "trace": text}


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - the arguments do not fit, or one cannot be printed
        return f"{_text_of(record.msg)} (its arguments could not be put in)"


def _text_of(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - the `__str__` of another library
        return f"<{type(value).__name__}>"


def _mask(text: str, *, limit: int = MAX_TEXT, keeps_end: bool = False) -> str:
    cut = len(text) > _MAX_READ
    masked = mask_text(text[-_MAX_READ:] if keeps_end else text[:_MAX_READ])
    if cut:
        masked = masked[_CUT_EDGE:] if keeps_end else masked[:-_CUT_EDGE]
    if not cut and len(masked) <= limit:
        return masked
    return "..." + masked[-limit:] if keeps_end else masked[:limit] + "..."


def _shorten(value: Json) -> Json:
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else value[:MAX_TEXT] + "..."
    if isinstance(value, dict):
        return {name: _shorten(member) for name, member in value.items()}
    return [_shorten(item) for item in value] if isinstance(value, list) else value


class _PlainCopier:
    """Copies any object into a JSON tree. Depth, number of values and amount of text are bounded."""

    def __init__(self) -> None:
        self._values = _MAX_VALUES
        self._characters = _MAX_READ

    def copy(self, value: object, depth: int = 0) -> Any:
        self._values -= 1
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if value.bit_length() <= _WIDEST_INTEGER else f"<integer of {value.bit_length()} bits>"
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return f"<{len(value)} bytes>"
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            return self._container(value, depth)
        return self._text(_text_of(value))

    def _container(self, value: Mapping[Any, Any] | Iterable[Any], depth: int) -> Any:
        if depth >= MAX_DEPTH:
            return f"<{type(value).__name__} nested too deep>"
        if isinstance(value, Mapping):
            return {
                _text_of(name)[:MAX_ID]: self.copy(member, depth + 1)
                for name, member in value.items()
                if self._values > 0
            }
        return [self.copy(item, depth + 1) for item in value if self._values > 0]

    def _text(self, text: str) -> str:
        # A text is copied whole or left out: half a secret would not be recognised.
        if len(text) > self._characters:
            return f"<{len(text)} characters>"
        self._characters -= len(text)
        return text
