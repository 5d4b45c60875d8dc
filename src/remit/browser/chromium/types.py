"""What is said about a page: plain values, without a browser in them."""

from decimal import Decimal
from typing import Literal, NamedTuple

from remit.core.errors import EnvironmentFailureError, RefusedError
from remit.masking.field_names import Kind


class Element(NamedTuple):
    """One of the two: a CSS selector, for the document of the page itself, or a reference from a snapshot.

    A selector sees neither into frames nor into shadow roots; a reference may be of an element there.
    """

    selector: str | None = None
    ref: str | None = None

    def __str__(self) -> str:
        return self.selector if self.selector is not None else self.ref or ""


class ElementNeverFoundError(RefusedError):
    """No element, however often it is looked for: what was asked for is wrong, and not the moment."""


class PageEndedError(EnvironmentFailureError):
    """The page's process has died, or it answered nothing and was ended. What was asked of it is not tried again."""


class Box(NamedTuple):
    """In pixels, from the upper left of what the page shows."""

    x: float
    y: float
    width: float
    height: float


class Form(NamedTuple):
    method: str
    action: str
    target: str
    fields: tuple[str, ...]
    """Names of its fields, each once."""


class ElementDescription(NamedTuple):
    """An element that is there once, visible, enabled, and that a press in its middle would hit."""

    tag: str
    type: str
    role: str
    name: str
    is_password: bool
    secret_kind: Kind | None
    """What it takes, if its name or type says that this is a secret: a password, a card, a code."""
    words: tuple[str, ...]
    """What the page calls it: its name, its id, its labels."""
    submits: bool
    """Whether a click on it submits a form by itself. What the page's scripts do is not known before."""
    form: Form | None
    """That a click would submit, with the button's own action and method; else the one it belongs to."""
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
    """False: the page is there, and something of it was still loading when the time was over."""
    unreachable: str = ""
    """Why there is no page of the server's, but a notice of our own in its place."""


PageEventKind = Literal[
    "alert", "confirm", "prompt", "beforeunload", "popup", "download", "file_chooser", "crash", "closed"
]


class PageEvent(NamedTuple):
    """Something that a page tried and did not get, or that happened to it."""

    kind: PageEventKind
    what: str


class PageAmount(NamedTuple):
    """A number with a currency in what the page shows."""

    value: Decimal
    currency: str
    text: str
    in_form: bool
