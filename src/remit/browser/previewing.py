"""What a person is shown of a held request: an HTTPPreview, made from the very object that will be sent. Pure."""

from dataclasses import dataclass
from typing import Final, Literal, get_args
from urllib.parse import urlsplit

from remit.browser.amounts import Found, amounts_in
from remit.browser.fields import Field, describe_bytes, fields_of, pairs_of
from remit.browser.masked import LONGEST_URL, Shown, cut, hiding, mask_header, mask_url, mask_value
from remit.browser.requests import OutgoingRequest
from remit.contracts.browser import Action, Amount, HTTPPreview, PreviewBody
from remit.errors import Reason, Refused

ShownMethod = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
SHOWN_METHODS: Final[dict[str, ShownMethod]] = {method: method for method in get_args(ShownMethod)}
LONGEST_SHOWN_URL: Final = 8_000
MOST_HEADERS: Final = 100
_VERBS: Final = {"POST": "Sends", "PUT": "Stores", "PATCH": "Changes", "DELETE": "Deletes", "GET": "Sends a form to"}


@dataclass(frozen=True)
class Context:
    """What is known about a request beside itself."""

    action: Action | None = None
    """The action that was running, or the last one of the session."""
    page: str = ""
    """The URL of the page that is shown, if it is known."""
    by_itself: bool = False
    """The page asked for it, such as by a timer, a worker or as it loaded, and no action of the agent."""
    secrets: frozenset[str] = frozenset()
    """What was typed into fields that do not show it: masked wherever it turns up, under whatever name."""
    on_page: tuple[Found, ...] = ()
    """Prices that the page shows."""
    redirected_from: str = ""
    """The address whose server sent the browser on to this one."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Read:
    """A request, its fields read once."""

    request: OutgoingRequest
    fields: tuple[Field, ...]

    @property
    def amounts(self) -> tuple[Found, ...]:
        return amounts_in(self.fields)


def read_request(request: OutgoingRequest) -> Read:
    """The fields of its body; of a request without one, those of its query."""
    headers = {name.lower(): value for name, value in request.headers}
    fields = fields_of(headers.get("content-type", ""), headers.get("content-encoding", ""), request.body)
    query = urlsplit(request.url).query
    return Read(request, fields if request.body else tuple(pairs_of(query)))


def require_showable(request: OutgoingRequest) -> None:
    """What has no preview cannot be asked about, and is not sent."""
    if request.kind == "request" and request.method not in SHOWN_METHODS:
        what = f"a request with the method {request.method[:20]!r} cannot be shown to a person, so it is not sent"
    elif len(request.url) > LONGEST_SHOWN_URL:
        what = f"a request with a URL of {len(request.url):,} characters cannot be shown to a person, so it is not sent"
    else:
        return
    raise Refused(
        Reason.CONSTRAINT_VIOLATED, what, where=mask_url(request.url)[:200], next_step="Do this without an agent."
    )


def preview_request(read: Read, context: Context) -> HTTPPreview:
    request = read.request
    hide = hiding(context.secrets)
    shown = Shown()
    shown.add(read.fields, hide)
    plain = dict(shown.plain)
    if shown.left_out:
        plain["(not shown)"] = f"{shown.left_out:,} more fields; the whole body: {describe_bytes(request.body)}"
    return HTTPPreview(
        method=_method(request),
        url=hide(mask_url(request.url))[: 2 * LONGEST_URL],
        headers={name: hide(value) for name, value in _headers(request).items()},
        body=PreviewBody(masked=shown.masked, preview=plain),
        estimatedEffect=hide(cut(estimate_effect(read, context), 4_000)),
    )


def preview_typing(action: Action, where: str, element: str) -> HTTPPreview:
    """Typing a password sends nothing yet, so there is no method. Of the value only its length is told."""
    length = len(action.value or "")
    return HTTPPreview(
        method=None,
        url=mask_url(where),
        headers={},
        body=PreviewBody(masked={"value": "********" if length else ""}, preview={}),
        estimatedEffect=cut(
            f"Types a secret of {length} characters into {element}, a password field of {_host(where)}."
        ),
    )


def estimate_effect(read: Read, context: Context) -> str:
    """A few sentences, made of the request itself; nothing in them was written by the agent or by the page alone."""
    sentences = [_what(read), *_around(read.request, context)]
    if context.action is not None and context.action.amount is not None:
        sentences.append(_price(context.action.amount, read.amounts, context.on_page))
    elif read.amounts:
        sentences.append(f"It names a price ({_named(read.amounts)}), and the agent does not call it a purchase.")
    return " ".join((*sentences, *context.notes))


def _what(read: Read) -> str:
    request = read.request
    host, path = _host(request.url), cut(mask_value("", urlsplit(request.url).path or "/"), 200)
    if request.kind == "websocket":
        return f"Opens a WebSocket to {host} {path}. Every message on it will be asked about."
    if request.kind == "message":
        return f"Sends a message of {len(request.body):,} bytes over the WebSocket to {host} {path}."
    count = len(read.fields)
    fields = f"{count} field{'' if count == 1 else 's'}"
    if request.method == "GET":
        return f"Submits a form with {fields} to {host}: GET {path}."
    if request.method == "DELETE":
        return f"Asks {host} to delete {path}."
    carried = fields if request.body else "an empty body"
    return f"{_VERBS.get(request.method, 'Sends')} {carried} at {host}: {request.method} {path}."


def _around(request: OutgoingRequest, context: Context) -> list[str]:
    told = []
    if urlsplit(request.url).scheme in {"http", "ws"}:
        told.append("It is not encrypted on its way.")
    page = _host(context.page)
    if page and page != _host(request.url):
        told.append(f"It goes to another host than the page that is shown, {page}.")
    if context.redirected_from:
        told.append(f"It comes after a redirect from {cut(mask_url(context.redirected_from), 200)}.")
    if context.by_itself:
        told.append("The page asked for this by itself; it is not the agent's action.")
    return told


def _price(declared: Amount, in_request: tuple[Found, ...], on_page: tuple[Found, ...]) -> str:
    said = f"The agent declares a price of {declared.value:.2f} {declared.currency}."
    if in_request:
        return f"{said} The request agrees: {_named(in_request)}."
    if on_page:
        return f"{said} The request names none; the page shows {', '.join(str(each.value) for each in on_page[:5])}."
    return f"{said} Neither the request nor the page names one that could be compared: look closely."


def _named(amounts: tuple[Found, ...]) -> str:
    return ", ".join(f"{cut(each.where, 40)} = {each.value}" for each in amounts[:5])


def _method(request: OutgoingRequest) -> ShownMethod | None:
    """None for a message on a WebSocket, which has none."""
    return SHOWN_METHODS.get(request.method)


def _headers(request: OutgoingRequest) -> dict[str, str]:
    shown: dict[str, str] = {}
    for name, value in request.headers[:MOST_HEADERS]:
        number, unused = 1, cut(name, 100)
        while unused in shown:
            number += 1
            unused = f"{cut(name, 100)}#{number}"
        shown[unused] = mask_header(name, value)
    if len(request.headers) > MOST_HEADERS:
        shown["(not shown)"] = f"{len(request.headers) - MOST_HEADERS:,} more headers"
    return shown


def _host(url: str) -> str:
    """As Chromium wrote it: a host that looks like another one is in its ASCII form."""
    try:
        return cut(urlsplit(url).netloc.rpartition("@")[2], 255)
    except ValueError:
        return ""
