"""The style sheet, the scripts and the icon of the package: a closed list, read once, the same for every caller."""

from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from remit.core.canonical import digest_bytes
from remit.core.errors import Reason, RefusedError

TYPES: Final = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class Asset(NamedTuple):
    body: bytes
    media: str
    tag: str


@cache
def assets() -> dict[str, Asset]:
    """Return the files by their path below /static. The list is fixed after the first call."""
    found: dict[str, Asset] = {}
    root = files("remit.web.console") / "static"
    for folder in ("", "css", "js"):
        for file in (root / folder if folder else root).iterdir():
            ending = file.name[file.name.rfind(".") :]
            if file.is_file() and ending in TYPES:
                body = file.read_bytes()
                tag = f'"{digest_bytes(body)[-32:]}"'
                found[f"{folder}/{file.name}".lstrip("/")] = Asset(body, TYPES[ending], tag)
    return found


def serve_asset(request: Request, name: str) -> Response:
    asset = assets().get(name)
    if asset is None:
        raise RefusedError(Reason.STATE_MISSING, "there is no such file", where="/static", next_step="Open /inbox.")
    headers = {"ETag": asset.tag, "Cache-Control": "no-cache", "Content-Type": asset.media}
    if request.headers.get("if-none-match") == asset.tag:
        return Response(status_code=304, headers=headers)
    return Response(asset.body, headers=headers)
