"""The confirmation before a decision or a rollback: what will happen, and a button.

With scripts the page asks in a dialog. Without scripts, or before they are loaded, the server asks with this page.
"""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from remit.web.console.confirm import Confirmation
from remit.web.console.forms import FormFields
from remit.web.console.pages import page

FIELD: Final = "confirmed"
_RESERVED_FIELDS: Final = frozenset({FIELD})


def is_confirmed(form: FormFields) -> bool:
    return form.one(FIELD) == "yes"


def render_confirmation(request: Request, form: FormFields, confirmation: Confirmation, cancel_path: str) -> Response:
    """Render the same form again with nothing to fill in: only a button to confirm, and a link to return."""
    fields = [(name, value) for name, value in form.everything() if name not in _RESERVED_FIELDS]
    query = f"?{request.url.query}" if request.url.query else ""
    action = request.url.path + query
    return page(
        request, "confirm.html", confirmation=confirmation, fields=fields, action=action, cancel_path=cancel_path
    )
