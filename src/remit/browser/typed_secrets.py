"""Text that the agent typed into fields of one session that hide it, and the places where it is masked.

A typed text is masked in certain places, and never everywhere it occurs. An agent chooses what it types, so it could
otherwise hide a host, a price or a sentence of Remit. The places are whole values: of a field of a body, of a parameter
of an address, of a header. Names, hosts, ports, paths, methods, prices, Remit's own sentences, and values that the
agent itself sent, such as the target of an action, are never masked because of a typed text.

- Under the name of the field that it was typed into, a value is masked by the kind of that field, in requests of the
  same site. No person approves text that is typed into a field that shows it. So a label such as "Recipient, not your
  password" hides nothing if the name of the field says that it is a recipient, a place or an amount.
- Under another name, a value is masked only if all of this is true. It was typed into a real password field of the same
  page, with a person's approval. No field of the request has it under its own name. The agent did not type it into a
  field that shows it, and did not write it into an address. It is not a number. The other name does not say that it is
  a recipient, a place or an amount.

In the text of a page that the agent receives, a password that the page repeats is removed. Limits: a password of fewer
than four characters is not searched for in such text, and neither is an encoding that hides it, such as Base64.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, unquote_plus

from remit.browser.amounts import find_amounts, parse_amount
from remit.browser.model.form_fields import Field
from remit.browser.model.masking import MASK, is_hidden_name, mask_url
from remit.core.errors import RemitError
from remit.masking import Json, mask_json, mask_text
from remit.masking.field_names import Kind
from remit.masking.masks import named_mask, ssn_mask, written_card_mask
from remit.masking.regex_cache import vocabulary

SHORTEST: Final = 4
MOST_KNOWN: Final = 200
"""The typed texts that are kept for one session. Fields of forgotten ones are masked by their names alone."""
MOST_OPEN: Final = 1_000
_PIECE: Final = 200
"""A longer text is searched for in pieces, so that a pattern stays small."""
_OURS: Final = frozenset({"role", "ref"})
"""Members of a snapshot that the browser writes and not the page."""
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
_ESCAPES: Final = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_NUMBER: Final = re.compile(r"[\d\s.,:'/+%-]+")
_QUOTED: Final = re.compile(r"""(["'])(?P<value>(?:(?!\1)[^\\]|\\.)*)\1""")
# A name with one of these words says who receives something, where it goes or how much it is. Such values are shown.
_SAYS_WHAT_IT_IS: Final = vocabulary(
    "account accounts acct action addr address amount bank beneficiary bic city command cmd count country creditor "
    "currency date debtor description dest destination domain email from host iban id invoice item items location mail "
    "memo message method name note order origin payee payer payment phone port price product qty quantity receiver "
    "recipient redirect ref reference referer role routing sender state status street subject swift target tel title "
    "to total transfer type uri url user username wallet zip"
)
# Weak words: a framework may put them into any name.
_SAYS_LITTLE: Final = vocabulary("id ref role state status type")
# A script cannot set these headers, or they describe the request. Their values are never typed text.
_HEADERS_OF_THE_BROWSER: Final = re.compile(
    r"(?i)accept.*|access-control-.*|cache-control|connection|content-.*|dnt|date|expect|host|if-.*|keep-alive|origin|"
    r"pragma|priority|proxy-.*|range|referer|sec-.*|te|trailer|transfer-encoding|upgrade.*|user-agent|via|x-http-.*|"
    r"x-method.*|x-original-.*|x-rewrite-.*|x-forwarded-.*"
)


class TypedText(NamedTuple):
    """One text, and the field that it was typed into."""

    value: str
    kind: Kind
    """The kind of the field."""
    is_password: bool
    """Whether it is a real password field, so that a person approved the typing."""
    names: frozenset[str]
    """The page's names for the field: its name, its id and its labels."""
    page: str
    """The address of the page, without query and fragment."""


class TypedSecrets:
    """The typed texts of one session. The browser's thread adds to them, and any thread may read them, because the
    tuples are replaced and never changed.
    """

    def __init__(self) -> None:
        self._known: tuple[TypedText, ...] = ()
        self._passwords: tuple[str, ...] = ()
        """All passwords that were typed, to remove them from the text of the page."""
        self._shown_texts: tuple[str, ...] = ()
        """Text that the agent typed into fields that show it, and addresses that it navigated to."""
        self._patterns: tuple[re.Pattern[str], ...] = ()

    def add(self, value: str, kind: Kind, *, is_password: bool, names: Iterable[str], page: str) -> None:
        """Note a typed text. It replaces the text that was typed into the same field before."""
        typed = TypedText(value, kind, is_password, frozenset(name for name in names if name), _page_of(page))
        others = (known for known in self._known if not typed.names or known[3:] != typed[3:])
        self._known = (*others, *((typed,) if value else ()))[-MOST_KNOWN:]
        if is_password and len(value) >= SHORTEST and value not in self._passwords:
            self._passwords = (*self._passwords, value)[-MOST_KNOWN:]
            self._build_patterns()

    def note_shown_text(self, mask_text: str) -> None:
        """Note a text that is not a secret: the agent typed it into a field that shows it, or navigated to it."""
        if mask_text and mask_text not in self._shown_texts:
            self._shown_texts = (*self._shown_texts, mask_text)[-MOST_OPEN:]
            self._build_patterns()

    def _build_patterns(self) -> None:
        pieces = {piece for text in self._passwords if not self._is_shown(text) for piece in _pieces(text)}
        self._patterns = tuple(
            _spelling_pattern(piece) for piece in sorted(pieces, key=lambda piece: (-len(piece), piece))
        )

    def _is_shown(self, value: str) -> bool:
        return any(value in known or value in unquote_plus(known, errors="replace") for known in self._shown_texts)

    # --- places of a request -----------------------------------------------------------------------------------------

    def select_for_request(self, fields: Iterable[Field], page: str) -> "RequestSecrets":
        """Return the typed values among the fields of one request of this page."""
        return RequestSecrets(self._known, page=_page_of(page), fields=tuple(fields), is_open=self._is_shown)

    def mask_url(self, url: str) -> str:
        """Mask an address for a record or for the agent. Only values of its parameters are masked."""
        return mask_url(url, RequestSecrets(self._known, page=None, fields=(), is_open=self._is_shown).mask)

    # --- text of a page ----------------------------------------------------------------------------------------------

    def text(self, text: str) -> str:
        """Mask text of the page for the agent. It is not meant for text that a person decides on."""
        return mask_text(self._hide(text))

    def mask_tree(self, tree: Any) -> Json:
        """Mask a snapshot."""
        return mask_json(self._mask_node(tree) if self._patterns else tree)

    def _hide(self, text: str) -> str:
        for pattern in self._patterns:
            text = pattern.sub(MASK, text)
        return text

    def _mask_node(self, tree: Any, name: str = "") -> Any:
        if isinstance(tree, dict):
            return {member: self._mask_node(child, member) for member, child in tree.items()}
        if isinstance(tree, list):
            return [self._mask_node(child) for child in tree]
        if not isinstance(tree, str) or name in _OURS:
            return tree
        return self.mask_url(tree) if name == "url" else self._hide(tree)

    # --- text of the agent -------------------------------------------------------------------------------------------

    def mask_selector(self, selector: str) -> str:
        """Mask a selector of the agent. Only a quoted text that is a password is masked."""
        secret = {text for text in self._passwords if not self._is_shown(text)}

        def masked(found: re.Match[str]) -> str:
            written = found["value"]
            is_secret = written in secret or unquote_plus(written, errors="replace") in secret
            return f"{found[1]}{MASK}{found[1]}" if is_secret else found[0]

        return mask_text(_QUOTED.sub(masked, selector) if secret else selector)

    @contextlib.contextmanager
    def masked_errors(self, selector: str | None) -> Iterator[None]:
        """Mask the selector in errors, because they name the element by the selector that the agent gave."""
        try:
            yield
        except RemitError as problem:
            if selector:
                shown = self.mask_selector(selector)
                problem.what = problem.what.replace(selector, shown)
                problem.where = problem.where.replace(selector, shown)
                problem.next_step = problem.next_step.replace(selector, shown)
                problem.args = (problem.what,)
            raise


class RequestSecrets:
    """The typed values of one request. `masked` collects the names under which values were masked.

    `page` is None if it is unknown which page sent the request, as in a record.
    """

    def __init__(
        self,
        known: tuple[TypedText, ...],
        *,
        page: str | None,
        fields: tuple[Field, ...],
        is_open: Callable[[str], bool],
    ) -> None:
        self._known = known
        self._page = page
        self._is_shown = is_open
        self._under_own_name = {
            typed.value
            for field in fields
            if (typed := self._find_by_name(field.name, _readings(field.value))) is not None
        }
        """Typed values that the request has under the name of their own field."""
        self.masked: list[str] = []
        """Names of fields and headers whose value was masked as a typed text, in order."""

    def mask(self, name: str, value: str) -> str | None:
        """Return the mask of a whole value, or None if no typed text makes it a secret."""
        readings = _readings(value)
        typed = self._find_by_name(name, readings) or self._find_renamed(name, readings)
        if typed is None or find_amounts((Field(name, typed.value),)):
            return None
        if name not in self.masked:
            self.masked.append(name)
        return MASK if typed.is_password else named_mask(typed.kind, typed.value)

    def mask_header(self, name: str, value: str) -> str | None:
        return None if _HEADERS_OF_THE_BROWSER.fullmatch(name) else self.mask(name, value)

    def is_password(self, value: str) -> bool:
        """Whether this was typed into a password field, whatever the name under which it is sent. For a warning."""
        readings = _readings(value)
        return any(typed.is_password and typed.value in readings for typed in self._known)

    def _find_by_name(self, name: str, readings: frozenset[str]) -> TypedText | None:
        names = {name, _last_member(name)}
        return next(
            (
                typed
                for typed in self._known
                if typed.value in readings
                and not names.isdisjoint(typed.names)
                and self._is_same_site(typed)
                and (typed.is_password or _may_mask_under(name, typed))
            ),
            None,
        )

    def _find_renamed(self, name: str, readings: frozenset[str]) -> TypedText | None:
        if not _SAYS_WHAT_IT_IS.isdisjoint(_split_words(name)):
            return None
        found = (typed for typed in self._known if typed.is_password and typed.value in readings)
        return next((typed for typed in found if self._may_be_renamed(typed)), None)

    def _may_be_renamed(self, typed: TypedText) -> bool:
        is_number = _NUMBER.fullmatch(typed.value) is not None or parse_amount(typed.value) is not None
        if is_number or len(typed.value) < SHORTEST or self._page not in {None, typed.page}:
            return False
        return typed.value not in self._under_own_name and not self._is_shown(typed.value)

    def _is_same_site(self, typed: TypedText) -> bool:
        return self._page is None or _site_of(self._page) == _site_of(typed.page)


def _may_mask_under(name: str, typed: TypedText) -> bool:
    """Whether text that no person approved may be masked under this name. Not if the name describes the value, unless
    the mask shows the end of a number.
    """
    if is_hidden_name(name) or (_SAYS_WHAT_IT_IS - _SAYS_LITTLE).isdisjoint(_split_words(name)):
        return True
    return named_mask(typed.kind, typed.value) in {written_card_mask(typed.value), ssn_mask(typed.value)}


def _page_of(url: str) -> str:
    return url.partition("#")[0].partition("?")[0]


def _site_of(page: str) -> str:
    return "/".join(page.split("/")[:3]).lower()


def _readings(value: str) -> frozenset[str]:
    """Return the value, and the value before a script percent-encoded it, as scripts do in headers and in JSON."""
    return frozenset({value, unquote(value, errors="replace")}) if "%" in value else frozenset({value})


def _last_member(name: str) -> str:
    """`user[pw]`, `login.pw` and `pw` are one name."""
    return next((part for part in reversed(re.split(r"[.\[\]]+", name)) if part), name)


def _split_words(name: str) -> list[str]:
    return re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())


def _pieces(secret: str) -> Iterator[str]:
    """Split a secret into pieces of about the same length. A short last piece would match unrelated text."""
    size = -(-len(secret) // -(-len(secret) // _PIECE))
    return (secret[start : start + size] for start in range(0, len(secret), size))


def _spelling_pattern(secret: str) -> re.Pattern[str]:
    """Return a pattern that matches each character as it is, percent-encoded once or twice, or escaped as in JSON or
    HTML, in upper or lower case.
    """
    # Atomic groups: a row of backslashes may be as many characters or half of them. Backtracking would try all ways.
    coded = "".join(f"(?>{'|'.join(_spellings(character))})" for character in secret)
    return re.compile(f"{coded}|{re.escape(secret)}", re.IGNORECASE)


def _spellings(character: str) -> Iterator[str]:
    """The longer ones first."""
    yield "".join(f"%(?:25)?{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))
    if character == " ":
        yield r"\+"
    units = character.encode("utf-16-be", "surrogatepass").hex()
    yield "".join(rf"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
    if character in '"\\/':
        yield re.escape(f"\\{character}")
    if character in _ESCAPES:
        yield rf"\\{_ESCAPES[character]}"
    if character in _ENTITIES:
        yield _ENTITIES[character]
    yield f"&#(?:0*{ord(character)}|x0*{ord(character):x});"
    yield re.escape(character)
