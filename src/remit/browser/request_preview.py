"""The preview of a held request for an approver: an HTTPPreview, made from the object that will be sent. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, get_args
from urllib.parse import urlsplit

from remit.browser.amounts import FoundPrice, find_amounts, priced_fields
from remit.browser.held_requests import PendingRequest
from remit.browser.model.form_fields import Field, describe_bytes, parse_fields, parse_pairs
from remit.browser.model.masking import LONGEST_URL, ShownFields, cut, mask_header, mask_url
from remit.browser.model.requests import OutgoingRequest
from remit.browser.override_headers import find_override_header, find_override_parameter
from remit.browser.typed_secrets import RequestSecrets, TypedSecrets
from remit.contracts.browser.browser import Action, Amount, HTTPPreview, PreviewBody
from remit.core.errors import Reason, RefusedError
from remit.core.text import spelled_name
from remit.masking import is_secret_name

ShownMethod = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
SHOWN_METHODS: Final[dict[str, ShownMethod]] = {method: method for method in get_args(ShownMethod)}
LONGEST_SHOWN_URL: Final = 8_000
MOST_HEADERS: Final = 100
MOST_NAMED: Final = 10
_VERBS: Final = {"POST": "Sends", "PUT": "Stores", "PATCH": "Changes", "DELETE": "Deletes", "GET": "Sends a form to"}


@dataclass(frozen=True)
class Context:
    """The circumstances of a request."""

    action: Action | None = None
    """The action that was running, or the last one of the session."""
    page: str = ""
    """The URL of the shown page, if it is known."""
    by_itself: bool = False
    """The page sent it by itself, for example by a timer, in a worker or while it loaded, and not for an action."""
    secrets: TypedSecrets = field(default_factory=TypedSecrets)
    """Text that was typed into fields that hide it. A whole value that equals one is masked."""
    on_page: tuple[FoundPrice, ...] = ()
    """Prices that the page shows."""
    redirected_from: str = ""
    """The address whose server redirected the browser to this one."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ParsedRequest:
    """A request with its parsed fields."""

    request: OutgoingRequest
    fields: tuple[Field, ...]

    @property
    def amounts(self) -> tuple[FoundPrice, ...]:
        """The prices in the body and in the query, because a server may read either."""
        query = parse_pairs(urlsplit(self.request.url).query) if self.request.body else ()
        return find_amounts(priced_fields((*self.fields, *query)))


def read_request(request: OutgoingRequest) -> ParsedRequest:
    """Parse the fields of the body, or those of the query if there is no body."""
    headers = {name.lower(): value for name, value in request.headers}
    fields = parse_fields(headers.get("content-type", ""), headers.get("content-encoding", ""), request.body)
    query = urlsplit(request.url).query
    return ParsedRequest(request, fields if request.body else tuple(parse_pairs(query)))


def require_showable(request: OutgoingRequest) -> None:
    """Refuse a request that has no preview. No person could approve it, so it is not sent."""
    if request.kind == "request" and request.method not in SHOWN_METHODS:
        what = f"a request with the method {request.method[:20]!r} cannot be shown to a person, so it is not sent"
    elif len(request.url) > LONGEST_SHOWN_URL:
        what = f"a request with a URL of {len(request.url):,} characters cannot be shown to a person, so it is not sent"
    else:
        return
    raise RefusedError(
        Reason.CONSTRAINT_VIOLATED, what, where=mask_url(request.url)[:200], next_step="A person has to do this."
    )


def preview_request(parsed: ParsedRequest, context: Context) -> HTTPPreview:
    request = parsed.request
    typed = _typed_secrets_in(parsed, context)
    shown = ShownFields()
    shown.add(parsed.fields, typed.mask)
    url, headers = mask_url(request.url, typed.mask)[: 2 * LONGEST_URL], _headers(request, typed)
    plain = dict(shown.plain)
    if shown.left_out:
        plain["(not shown)"] = f"{shown.left_out:,} more fields; the whole body: {describe_bytes(request.body)}"
    return HTTPPreview(
        method=_method(request),
        url=url,
        headers=headers,
        body=PreviewBody(masked=shown.masked, preview=plain),
        estimatedEffect=cut(" ".join((estimate_effect(parsed, context), *_note_masked_names(typed.masked))), 4_000),
    )


def _typed_secrets_in(parsed: ParsedRequest, context: Context) -> RequestSecrets:
    """Select the typed values in the body and in the query."""
    query = tuple(parse_pairs(urlsplit(parsed.request.url).query)) if parsed.request.body else ()
    return context.secrets.select_for_request((*parsed.fields, *query), context.page)


def _note_masked_names(names: Sequence[str]) -> Iterator[str]:
    """List the masked values by name, also if the name does not suggest a secret."""
    if names:
        first = ", ".join(spelled_name(cut(name, 40)) or "a value without a name" for name in names[:MOST_NAMED])
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        yield f"Masked: {first}{more} (value typed into a secret field)."


def preview_typing(action: Action, where: str, element: str, secrets: TypedSecrets) -> HTTPPreview:
    """Return the preview of typing a password. Typing sends nothing yet, so there is no method. The preview has only
    the length of the value.
    """
    length = len(action.value or "")
    in_clear = " The page is not encrypted, and most likely sends it unencrypted." if _is_unencrypted(where) else ""
    return HTTPPreview(
        method=None,
        url=secrets.mask_url(where),
        headers={},
        body=PreviewBody(masked={"value": "********" if length else ""}, preview={}),
        estimatedEffect=cut(
            f"Types a secret of {length} characters into {element}, a password field of {_host(where)}.{in_clear}"
        ),
    )


def estimate_effect(parsed: ParsedRequest, context: Context) -> str:
    """Return a few sentences from the request itself. The agent or the page alone wrote no part of them."""
    sentences = [_describe_request(parsed), *_describe_circumstances(parsed, context)]
    amounts = parsed.amounts
    if context.action is not None and context.action.amount is not None:
        sentences.append(_describe_price(context.action.amount, amounts, context.on_page))
    elif amounts:
        sentences.append(f"It names a price ({_list_amounts(amounts)}), but the agent did not declare a purchase.")
    return " ".join((*sentences, *context.notes))


def build_notes(held: PendingRequest) -> tuple[str, ...]:
    """Return sentences for its preview: how late it came, and where its head contradicts its first line."""
    notes = []
    if held.seconds_after is not None:
        what = held.cause.what or f"{held.cause.action.type}"
        notes.append(
            f"It came {held.seconds_after:.1f} s after the agent's {what} (action {held.cause.action.action_id}) had"
            " ended. Remit cannot tell whether that caused it."
        )
    if held.page_left:
        notes.append("The agent has gone to another page since then.")
    header = find_override_header(held.request.headers)
    if header:
        notes.append(
            f"Its header {cut(header, 60)} names another method or address. Some servers follow that header and not"
            " the first line of the request."
        )
    parameter = find_override_parameter(held.request.url) if held.request.kind == "request" else ""
    if parameter:
        notes.append(
            f"Its parameter {spelled_name(cut(parameter, 60))} names another method. Some servers follow that parameter"
            " and not the first line of the request."
        )
    return tuple(notes)


def _describe_request(parsed: ParsedRequest) -> str:
    request = parsed.request
    host, path = _host(request.url), cut(_path(mask_url(request.url)), 200)
    if request.kind == "websocket":
        return f"Opens a WebSocket to {host} {path}. Every message on it needs an approval of its own."
    if request.kind == "message":
        return f"Sends a message of {len(request.body):,} bytes over the WebSocket to {host} {path}."
    count = len(parsed.fields)
    fields = f"{count} field{'' if count == 1 else 's'}"
    if request.method == "GET":
        return f"Submits a form with {fields} to {host}: GET {path}."
    if request.method == "DELETE":
        return f"Asks {host} to delete {path}."
    content = fields if request.body else "an empty body"
    return f"{_VERBS.get(request.method, 'Sends')} {content} at {host}: {request.method} {path}."


def _describe_circumstances(parsed: ParsedRequest, context: Context) -> list[str]:
    sentences, request = [], parsed.request
    if _is_unencrypted(request.url):
        sentences.append("It is sent unencrypted.")
        typed = _typed_secrets_in(parsed, context)
        if any(_is_password(field, typed) for field in parsed.fields):
            sentences.append("A password is sent unencrypted: other parties in the network can read it.")
    page = _host(context.page)
    if page and page != _host(request.url):
        sentences.append(f"It goes to another host than the shown page, {page}.")
    if context.redirected_from:
        origin = mask_url(context.redirected_from, _typed_secrets_in(parsed, context).mask)
        sentences.append(f"It comes after a redirect from {cut(origin, 200)}.")
    if context.by_itself:
        sentences.append("The page sends this by itself; it is not the agent's action.")
    return sentences


def _is_unencrypted(url: str) -> bool:
    return url.lower().startswith(("http:", "ws:"))


def _is_password(field: Field, typed: RequestSecrets) -> bool:
    """Whether the field is a password, by its name or because its value was typed into a password field."""
    name = field.name.lower()
    return bool(field.value) and (
        typed.is_password(field.value) or (("pass" in name or "pwd" in name) and is_secret_name(field.name))
    )


def _describe_price(declared: Amount, in_request: tuple[FoundPrice, ...], on_page: tuple[FoundPrice, ...]) -> str:
    sentence = f"The agent declares a price of {declared.value:.2f} {declared.currency}."
    if in_request:
        return f"{sentence} The request agrees: {_list_amounts(in_request)}."
    if on_page:
        return (
            f"{sentence} The request names none; the page shows {', '.join(str(each.value) for each in on_page[:5])}."
        )
    return f"{sentence} Neither the request nor the page names a price that can be compared. Check it carefully."


def _list_amounts(amounts: tuple[FoundPrice, ...]) -> str:
    """List the prices, the unreadable ones first, because the approver should check those."""
    first = sorted(amounts, key=lambda each: each.value is not None)[:5]
    return ", ".join(
        f"{spelled_name(cut(each.where, 40))} "
        + (f"= {each.value:f}" if each.value is not None else "cannot be read as an amount")
        for each in first
    )


def _method(request: OutgoingRequest) -> ShownMethod | None:
    """The method to show. None for a message on a WebSocket."""
    return SHOWN_METHODS.get(request.method)


def _headers(request: OutgoingRequest, typed: RequestSecrets) -> dict[str, str]:
    shown: dict[str, str] = {}
    for name, value in request.headers[:MOST_HEADERS]:
        shortened = cut(name, 100)
        number, unused = 1, shortened
        while unused in shown:
            number += 1
            unused = f"{shortened}#{number}"
        shown[unused] = mask_header(name, value, typed.mask_header)
    if len(request.headers) > MOST_HEADERS:
        shown["(not shown)"] = f"{len(request.headers) - MOST_HEADERS:,} more headers"
    return shown


def _path(masked_url: str) -> str:
    return urlsplit(masked_url).path or "/"


def _host(url: str) -> str:
    """The host as Chromium wrote it. A host that looks like another one is in its ASCII form."""
    try:
        return cut(urlsplit(url).netloc.rpartition("@")[2], 255)
    except ValueError:
        return ""
