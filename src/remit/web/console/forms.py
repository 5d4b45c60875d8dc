"""Submitted forms: bounded, and decoded strictly. The middleware has already checked the session."""

from typing import Annotated, Final
from urllib.parse import parse_qs

from fastapi import Depends
from starlette.requests import Request

from remit.core.errors import Reason, RefusedError

MOST_BYTES: Final = 1 << 20
MOST_FIELDS: Final = 1_000
_MEDIA: Final = "application/x-www-form-urlencoded"


class FormFields:
    """The fields of one form, each a list of texts."""

    def __init__(self, fields: dict[str, list[str]]) -> None:
        self._fields = fields

    def everything(self) -> list[tuple[str, str]]:
        return [(name, value) for name, values in self._fields.items() for value in values]

    def one(self, name: str) -> str:
        return self._fields.get(name, [""])[0].strip()

    def given(self, name: str) -> str | None:
        return self.one(name) or None

    def many(self, name: str) -> tuple[str, ...]:
        """Return the value of every ticked box with this name."""
        return tuple(self._fields.get(name, ()))

    def lines(self, name: str) -> tuple[str, ...]:
        """Split a text at lines, commas and spaces. Browsers also send carriage returns."""
        return tuple(self.one(name).replace(",", " ").split())


async def _read(request: Request) -> FormFields:
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != _MEDIA:
        raise _unreadable("its content type is not that of a form")
    raw = await request.body()
    if len(raw) > MOST_BYTES:
        raise RefusedError(Reason.TOO_LARGE, "the form is too large", where="body", next_step="Send less at once.")
    try:
        fields = parse_qs(raw.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise _unreadable("it is not encoded like a form") from None
    return FormFields(fields)


def _unreadable(why: str) -> RefusedError:
    return RefusedError(
        Reason.MALFORMED, f"the form cannot be read: {why}", where="body", next_step="Open the page again."
    )


Filled = Annotated[FormFields, Depends(_read)]
