"""The data about a page: plain values without a reference to the browser."""

from decimal import Decimal
from typing import Literal, NamedTuple

from remit.core.errors import EnvironmentFailureError, RefusedError
from remit.masking.field_names import Kind


class Element(NamedTuple):
    """The name of an element: a CSS selector for the main document of the page, or a reference from a snapshot.

    A selector finds no elements in frames or in shadow roots. A reference may name one.
    """

    selector: str | None = None
    ref: str | None = None

    def __str__(self) -> str:
        return self.selector if self.selector is not None else self.ref or ""


class ElementNeverFoundError(RefusedError):
    """Raised if a retry cannot find the element, because the request is wrong and not the time."""


class PageEndedError(EnvironmentFailureError):
    """Raised if the page's process died, or if the page did not answer and was ended. The call is not retried."""


class Box(NamedTuple):
    """A rectangle in pixels, from the upper left corner of the view."""

    x: float
    y: float
    width: float
    height: float


class Form(NamedTuple):
    method: str
    action: str
    target: str
    fields: tuple[str, ...]
    """The names of its fields, each once."""


class ElementDescription(NamedTuple):
    """An element that occurs once, is visible and enabled, and that a press in its middle would hit."""

    tag: str
    type: str
    role: str
    name: str
    is_password: bool
    secret_kind: Kind | None
    """The kind of secret that the element takes, by its name or type: a password, a card, a code. None for no
    secret.
    """
    words: tuple[str, ...]
    """The page's names for it: its name, its id, its labels."""
    submits: bool
    """Whether a click on it submits a form without a script. The effect of the page's scripts is unknown before."""
    form: Form | None
    """The form that a click would submit, with the button's own action and method, else the form of the element."""
    href: str | None
    outline: Box
    frame_url: str

    @property
    def is_secret(self) -> bool:
        return self.secret_kind is not None


class NavigationResult(NamedTuple):
    url: str
    status: int | None
    loaded: bool
    """False if the page was opened and a part of it was still loading when the time was over."""
    unreachable: str = ""
    """Why Remit shows a notice of its own in place of the server's page."""


PageEventKind = Literal[
    "alert", "confirm", "prompt", "beforeunload", "popup", "download", "file_chooser", "crash", "closed"
]


class PageEvent(NamedTuple):
    """An event of a page: an attempt that Remit refused, or the end of the page."""

    kind: PageEventKind
    what: str


class PageAmount(NamedTuple):
    """An amount of money in the text of a page."""

    value: Decimal
    currency: str
    text: str
    in_form: bool
