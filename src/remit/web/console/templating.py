"""The environment that renders every page.

Two rules apply to every value that a template outputs, and no template can turn them off. The value is escaped.
Invisible characters (control characters, bidirectional overrides, fillers) are spelled out, and right-to-left letters
are isolated, by marks or by an element with a direction. So text of an agent can neither become markup nor change how
the words around it read.
"""

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from remit.core.ids import parse_time
from remit.core.text import isolated, printable
from remit.goals.messages.catalogue import is_right_to_left
from remit.services.base.run_list import NOT_VOUCHED_FOR

MINUTE: Final = 60
HOUR: Final = 3_600
DAY: Final = 86_400
SHORT_ID: Final = 8
MOST_SHORT: Final = 24
_STEPS: Final = (
    (DAY, DAY, "d", HOUR, "h"),
    (HOUR, HOUR, "h", MINUTE, "min"),
    (MINUTE, MINUTE, "min", 1, "s"),
)

Tone = str
_TONES: Final[dict[str, Tone]] = {
    **dict.fromkeys(("APPLIED", "APPROVED", "SUCCESS", "ACTIVE", "EXECUTED", "ok", "holds", "valid", "LOW"), "good"),
    **dict.fromkeys(("FAILED", "DENIED", NOT_VOUCHED_FOR, "broken", "revoked", "HIGH", "CRITICAL"), "bad"),
    **dict.fromkeys(("PARTIAL", "UNFINISHED", "ROLLED_BACK", "CANCELLED", "MEDIUM", "DRAFT", "NEEDS_APPROVAL"), "care"),
    **dict.fromkeys(("WOULD_FAIL", "REVOKED", "BREACHED"), "bad"),
    **dict.fromkeys(("PENDING", "RUNNING", "waiting", "running"), "live"),
    **dict.fromkeys(("READY", "USED", "KEPT", "done"), "good"),
    **dict.fromkeys(("waiting_for_confirmation", "waiting_for_approval", "asks_question"), "live"),
    "WAIVED": "care",
}


def shown(value: Any) -> Any:
    """Return what `{{ value }}` outputs, before it is escaped. Only macros of the console make Markup."""
    if value is None:
        return ""
    return value if isinstance(value, Markup) else isolated(printable(str(value)))


def exact(text: str) -> Markup:
    """Escape the value of a form field without spelling anything out, so that it returns unchanged with the form."""
    return escape(text)


def visible(text: str) -> Markup:
    """Escape a text whose element has its direction. Invisible characters are spelled out, and no marks are added."""
    return escape(printable(text))


def direction(language: str) -> str:
    return "rtl" if is_right_to_left(language) else "ltr"


def in_lines(text: str) -> list[str]:
    """Split a text into lines. Tabs become spaces, because a tab would be spelled out."""
    return [line.replace("\t", "    ") for line in text.split("\n")]


def address(path: str, /, **query: str | int | None) -> str:
    """Build a link within the console. Values that callers choose go into the query, where dots and slashes have no
    meaning.
    """
    given = {name: value for name, value in query.items() if value is not None and value != ""}
    return f"{quote(path)}?{urlencode(given)}" if given else quote(path)


def render_duration(seconds: float) -> str:
    """Return the two largest units of a duration, such as `9 min 12 s`."""
    whole = max(int(seconds), 0)
    for least, unit, name, rest, rest_name in _STEPS:
        if whole >= least:
            left = whole % unit // rest
            return f"{whole // unit} {name} {left} {rest_name}" if left else f"{whole // unit} {name}"
    return f"{whole} s"


def seconds_until(time: str, now: datetime) -> float:
    return (parse_time(time) - now).total_seconds()


def minute(time: str | None) -> str:
    return time[:16].replace("T", " ") if time else ""


def second(time: str | None) -> str:
    return time[:19].replace("T", " ") + " UTC" if time else ""


def short(identifier: str | None) -> str:
    """Return the last part of an id. The first parts are the same for ids of one minute."""
    if not identifier:
        return ""
    last = identifier.rpartition("-")[2]
    found = last if len(identifier) > SHORT_ID and len(last) >= SHORT_ID else identifier
    return found if len(found) <= MOST_SHORT else f"…{found[-SHORT_ID:]}"


def tone(state: str | None) -> Tone:
    """Return the colour of a state. The page always shows the word too."""
    return _TONES.get(state or "", _TONES.get((state or "").upper(), ""))


def counted(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def humanize(state: str) -> str:
    """Return a state as words: `ROLLED_BACK` becomes `rolled back`."""
    words = state.replace("_", " ")
    return "not verified" if words == NOT_VOUCHED_FOR else words.lower()


def sentence(text: str) -> str:
    """Return a text with a capital first letter. Error texts begin in lower case, for use after a prefix."""
    return text[:1].upper() + text[1:]


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "exact": exact,
    "visible": visible,
    "direction": direction,
    "in_lines": in_lines,
    "how_long": render_duration,
    "minute": minute,
    "second": second,
    "sentence": sentence,
    "short": short,
    "tone": tone,
    "humanize": humanize,
}


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("remit.web.console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(FILTERS)
    made.globals.update(address=address, counted=counted, seconds_until=seconds_until)
    return made
