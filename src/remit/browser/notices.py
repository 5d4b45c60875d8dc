"""What a person is told about a held request that the request itself does not say. Pure."""

from remit.browser.held_requests import PendingRequest
from remit.browser.model.masking import cut
from remit.browser.override_headers import find_override_header, find_override_parameter
from remit.core.text import spelled_name


def build_notes(held: PendingRequest) -> tuple[str, ...]:
    """Sentences for its preview: when it came, and what in its head means something else than its first line."""
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
            f"Its header {cut(header, 60)} names another method or address. Some servers do what that says, and not"
            " what the first line of the request says."
        )
    parameter = find_override_parameter(held.request.url) if held.request.kind == "request" else ""
    if parameter:
        notes.append(
            f"Its parameter {spelled_name(cut(parameter, 60))} names another method. Some servers do what that says,"
            " and not what the first line of the request says."
        )
    return tuple(notes)
