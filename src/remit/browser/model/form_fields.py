"""The fields of a request's body for the preview, parsed as the server will parse them.

Nothing is omitted without a note. A body of an unknown form is shown as text, a binary body by its size and digest, and
a shortened text says how much is missing. A body is read once and never changed.
"""

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_plus

from remit.core.errors import RefusedError
from remit.core.text import printable
from remit.masking import mask_json, mask_shown
from remit.parsing import Bounds, parse_json

JSON_BOUNDS: Final = Bounds(max_bytes=256 << 10, max_depth=16, max_items=2_000, max_members=2_000)
MOST_PAIRS: Final = 2_000
"""A form with more pairs is shown as text, because approvers do not read so many and a page must not keep Remit busy.
"""
_FORM: Final = "application/x-www-form-urlencoded"
_BOUNDARY: Final = re.compile(r"""boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))""", re.IGNORECASE)
_PARAMETER: Final = re.compile(r"""(?:^|[\s;])(name|filename)="((?:[^"\\]|\\.)*)\"""", re.IGNORECASE)
_PAIRS: Final = re.compile(r"[^\s={}\[\]<>\"]{1,200}=[^\s{}\[\]<>\"]*(?:&[^\s={}\[\]<>\"]{1,200}=[^\s{}\[\]<>\"]*)*")
_MOST_PARTS: Final = 500


class Field(NamedTuple):
    """One field: its name, its value, and the masked value if its place in the document makes it a secret."""

    name: str
    value: str
    masked: str | None = None
    is_ours: bool = False
    """Whether the name is from Remit, in brackets, because the request has none."""


def parse_fields(content_type: str, encoding: str, body: bytes) -> tuple[Field, ...]:
    """Return the fields of a body as it is sent. An encoded body is shown only by its size and digest."""
    if not body:
        return ()
    if encoding.strip().lower() not in {"", "identity"}:
        return (_describe_unread(f"({encoding.strip()[:40]})", body, is_ours=True),)
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "multipart/form-data" and (parts := _multipart(content_type, body)) is not None:
        return parts
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return (_describe_unread("(bytes)", body, is_ours=True),)
    if kind != _FORM and (kind.endswith(("/json", "+json")) or text.lstrip()[:1] in {"{", "["}):
        read = _json(body)
        if read is not None:
            return read
    is_form = kind == _FORM or (len(body) <= JSON_BOUNDS.max_bytes and _PAIRS.fullmatch(text) is not None)
    if is_form and text.count("&") < MOST_PAIRS:
        return tuple(parse_pairs(text))
    return (Field("(text)", text, is_ours=True),)


def parse_pairs(text: str) -> Iterator[Field]:
    """Yield the fields of a query or a form in their order, with repeated names."""
    for pair in text.split("&"):
        if pair:
            name, _, value = pair.partition("=")
            yield Field(unquote_plus(name, errors="replace"), unquote_plus(value, errors="replace"))


def _describe_unread(name: str, body: bytes, *, is_ours: bool = False) -> Field:
    return Field(name, describe_bytes(body), is_ours=is_ours)


def describe_bytes(body: bytes) -> str:
    return f"{len(body):,} bytes, sha256:{sha256(body).hexdigest()}"


# --- JSON -----------------------------------------------------------------------------------------------------------


def _json(body: bytes) -> tuple[Field, ...] | None:
    """Return the fields of a JSON body. None if it is not plain JSON; it is then shown as text."""
    try:
        tree = parse_json(body, JSON_BOUNDS)
    except RefusedError:
        return None
    plain, masked = list(_leaves(tree, "")), list(_leaves(mask_json(tree, mask=mask_shown, whole_labels=True), ""))
    if len(plain) != len(masked):
        return None
    is_bare = not (tree and isinstance(tree, dict | list))
    return tuple(Field(name, value, hidden, is_bare) for (name, value), (_, hidden) in zip(plain, masked, strict=True))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, child in value.items():
            yield from _leaves(child, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and value:
        for index, child in enumerate(value):
            yield from _leaves(child, f"{path}[{index}]")
    else:
        yield path or "(json)", _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return "{}" if value == {} else "[]" if value == [] else str(value)


# --- multipart ------------------------------------------------------------------------------------------------------


def _multipart(content_type: str, body: bytes) -> tuple[Field, ...] | None:
    """Return the parts of a multipart body. None if they cannot be separated with certainty; it is then shown whole."""
    found = _BOUNDARY.search(content_type)
    if found is None:
        return None
    border = b"--" + (found[1] or found[2]).encode("latin-1", "replace")
    pieces = (b"\r\n" + body).split(b"\r\n" + border)
    if len(pieces) < 2 or pieces[0] or pieces[-1] not in {b"--", b"--\r\n"} or len(pieces) > _MOST_PARTS:
        return None
    parts = [_part(piece) for piece in pieces[1:-1]]
    return None if any(part is None for part in parts) else tuple(part for part in parts if part is not None)


def _part(piece: bytes) -> Field | None:
    head, blank, content = piece.partition(b"\r\n\r\n")
    if not head.startswith(b"\r\n") or not blank:
        return None
    headers = {}
    for line in head[2:].decode("utf-8", "replace").split("\r\n"):
        name, colon, value = line.partition(":")
        if not colon or name.lower() in headers:
            return None
        headers[name.lower()] = value.strip()
    named = [(name.lower(), value) for name, value in _PARAMETER.findall(headers.get("content-disposition", ""))]
    parameters = dict(named)
    if "name" not in parameters or len(parameters) != len(named):
        return None
    name = parameters["name"]
    if "filename" in parameters:
        kind = headers.get("content-type", "no type")
        return Field(name, f"file {parameters['filename']!r}, {printable(kind)}, {describe_bytes(content)}")
    try:
        return Field(name, content.decode())
    except UnicodeDecodeError:
        return _describe_unread(name, content)
