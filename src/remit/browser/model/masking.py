"""The display of URLs, headers and fields for people: masked by name and by pattern, on one line, of bounded length."""

import re
from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import unquote, unquote_plus, urlsplit

from remit.browser.model.form_fields import Field, parse_pairs
from remit.core.text import printable
from remit.masking import is_secret_name, mask_field, mask_shown
from remit.masking.regex_cache import vocabulary

MASK: Final = "********"
LONGEST_VALUE: Final = 2_000
LONGEST_HEADER: Final = 500
LONGEST_NAME: Final = 200
LONGEST_URL: Final = 4_000
MAX_INSPECTED: Final = 20_000
MOST_FIELDS: Final = 200
MOST_SHOWN: Final = 40_000
"""The characters of all fields of one preview together. Approvers do not read more, and records should not keep more.
"""

OURS: Final = "("
"""The first character of names that Remit gave. A field whose own name begins with it is shown in quotes."""

_FORGERY_WORDS: Final = ("csrf", "xsrf", "requestverification", "antiforgery", "authenticity")
# Names of fields whose value is a secret only if it is long and random.
_TICKETS: Final = vocabulary("auth code nonce session sid sig signature sso state ticket")
# The same for addresses, where such a name is part of a login link. A header or a field of that name may be anything.
_LINKS: Final = vocabulary("access activate confirm invite key reset")
_LONG_TICKET: Final = 12
# Words that follow such a name in the path of an ordinary page: /password/reset, /token/refresh.
_STEPS: Final = vocabulary(
    "change check confirm create delete edit expired forgot forgotten generate index introspect issue list login lost "
    "new policy recover recovery refresh renew request reset revoke send show strength update validate verify"
)
_ENCODED: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_ADDRESSES: Final = frozenset({"referer", "origin", "location", "sec-websocket-origin"})


TypedMask = Callable[[str, str], str | None]
"""Returns the mask of a whole value of this name if it was typed into a field that hides it."""


def _no_typed_mask(_name: str, _value: str) -> str | None:
    return None


def is_hidden_name(name: str) -> bool:
    """Whether a field of this name is always masked."""
    lowered = re.sub(r"[^a-z0-9]", "", name.lower())
    return is_secret_name(name) or any(word in lowered for word in _FORGERY_WORDS)


def mask_value(name: str, value: str) -> str:
    """Mask the value of a named field, uncut. Returns the same value if nothing in it needs a mask."""
    shown = mask_field(name, value, mask_shown)
    if shown == value and is_hidden_name(name) and value:
        return MASK
    if shown == value and _last_word(name) in _TICKETS and len(value) >= _LONG_TICKET:
        return MASK
    return _mask_encoded(name, value) if shown == value else shown


def mask_typed(name: str, value: str, typed: TypedMask) -> str:
    """Do the same, also for typed text. A name of a secret takes precedence, because it determines the mask."""
    hidden = None if is_hidden_name(name) else typed(name, value)
    return mask_value(name, value) if hidden is None else hidden


def _last_word(name: str) -> str:
    return re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().strip("_]. "))[-1]


def _mask_encoded(name: str, value: str) -> str:
    """Mask the whole value if a secret in it is percent-encoded, once or twice."""
    decoded = value
    for _ in range(3):
        if not _ENCODED.search(decoded):
            return value
        decoded = unquote(decoded, errors="replace")
        if mask_field(name, decoded) != decoded:
            return MASK
    return value


def mask_url(url: str, typed: TypedMask = _no_typed_mask) -> str:
    """Mask the secrets of a URL in the user, path, query and fragment, and never in the host.

    `typed` masks only whole values of parameters.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return printable(mask_shown(url))[:LONGEST_URL]
    origin = f"{parts.scheme}://{_without_user(parts.netloc)}" if parts.netloc else f"{parts.scheme}:"
    segments = parts.path.split("/")
    path = "/".join(map(_mask_segment, ["", *segments], segments))
    query = f"?{_mask_query(parts.query, typed)}" if parts.query else ""
    fragment = f"#{_mask_query(parts.fragment, typed)}" if parts.fragment else ""
    # Each piece is masked separately, so that a quote in one does not hide the others.
    shown = printable(origin + path + query + fragment)
    return shown if len(shown) <= LONGEST_URL else f"{shown[:LONGEST_URL]}... ({len(shown) - LONGEST_URL:,} more)"


def _mask_segment(before: str, segment: str) -> str:
    """Mask a part of a path: a part after `password` or `token`; after a weaker word, only if it looks random."""
    word, decoded = unquote(before, errors="replace"), unquote(segment, errors="replace")
    if is_hidden_name(word) and segment and segment.partition(".")[0].lower() not in _STEPS:
        return MASK
    is_word = (_last_word(word) in _TICKETS or word.lower() in _LINKS) and _looks_random(decoded)
    return MASK if is_word else mask_value("", segment)


def _looks_random(value: str) -> bool:
    return len(value) >= _LONG_TICKET and any(map(str.isdigit, value))


def host_of(url: str) -> str:
    """Return the host as the browser wrote it, an IPv6 address in brackets. Empty if there is none."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    return f"[{host}]" if ":" in host else host


def _without_user(netloc: str) -> str:
    user, at, host = netloc.rpartition("@")
    return f"{MASK}@{host}" if at and user else host


def _mask_query(query: str, typed: TypedMask) -> str:
    if "=" not in query:
        hidden = typed("", unquote_plus(query, errors="replace"))
        return mask_value("", query) if hidden is None else hidden
    shown = []
    for raw, pair in zip((piece for piece in query.split("&") if piece), parse_pairs(query), strict=True):
        name, equals, _ = raw.partition("=")
        is_link = pair.name.lower() in _LINKS and _looks_random(pair.value)
        masked = MASK if is_link else mask_typed(pair.name, pair.value, typed)
        shown.append(mask_shown(raw) if masked == pair.value else mask_shown(name) + equals + masked)
    return "&".join(shown)


def mask_header(name: str, value: str, typed: TypedMask = _no_typed_mask) -> str:
    if name.lower() in _ADDRESSES:
        return mask_url(value, typed)
    return cut(mask_typed(name, value, typed), LONGEST_HEADER)


def cut(shown: str, longest: int = LONGEST_VALUE, *, unseen: int = 0) -> str:
    """Shorten masked text and note how much is missing. `unseen` is the number of characters omitted before."""
    text = printable(shown)
    more = max(len(text) - longest, 0) + unseen
    return f"{text[:longest]}... ({more:,} more characters, not shown)" if more else text


class ShownFields:
    """The fields of one preview under unique names, within its limits."""

    def __init__(self) -> None:
        self.masked: dict[str, str] = {}
        self.plain: dict[str, str] = {}
        self.left_out = 0
        self._characters_left = MOST_SHOWN

    def add(self, fields: Iterable[Field], typed: TypedMask) -> None:
        for field in fields:
            if len(self.masked) + len(self.plain) >= MOST_FIELDS:
                self.left_out += 1
                continue
            # More than the shown part is inspected, because half a secret no longer looks like one. That is limited
            # too.
            inspected = field._replace(name=field.name[:MAX_INSPECTED], value=field.value[:MAX_INSPECTED])
            hidden = _mask_of(inspected, typed)
            is_masked = hidden != inspected.value
            unseen = len(field.value) - len(inspected.value)
            name, value = cut(mask_shown(inspected.name), LONGEST_NAME), cut(hidden, unseen=unseen)
            if name.startswith(OURS) and not field.is_ours:
                name = f'"{name}"'
            if len(name) + len(value) > self._characters_left:
                self.left_out += 1
                continue
            self._characters_left -= len(name) + len(value)
            (self.masked if is_masked else self.plain)[self._unused(name)] = value

    def _unused(self, name: str) -> str:
        names = self.masked.keys() | self.plain.keys()
        number = 1
        unused = name
        while unused in names:
            number += 1
            unused = f"{name}#{number}"
        return unused


def _mask_of(field: Field, typed: TypedMask) -> str:
    own_mask = field.value if field.masked is None else field.masked
    if own_mask not in {field.value, mask_shown(field.value)}:
        return own_mask
    return mask_typed(field.name, field.value, typed)
