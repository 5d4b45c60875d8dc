"""What the agent typed into fields of one session that do not show it: masked wherever the session is told or recorded.

Everything that leaves a session for people, programs or the ledger is masked here: no other masking knows these words.
Limits: one of fewer than four characters stands in any text by chance, and is not looked for; nor is a spelling that
hides it, such as Base64.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from remit.browser.masked import MASK, mask_url
from remit.errors import RemitError
from remit.masking import Json, mask_json, mask_text

SHORTEST: Final = 4
_PIECE: Final = 200
"""A longer one is looked for in pieces, so that a pattern stays small."""
_OURS: Final = frozenset({"role", "ref"})
"""Members of a snapshot with words of the browser's own."""
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
_ESCAPES: Final = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}


class TypedSecrets:
    """Of one session. Added to in the browser's thread and read in any: what is known is replaced, never changed."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known: frozenset[str] = frozenset()
        self._patterns: tuple[re.Pattern[str], ...] = ()
        for each in known:
            self.add(each)

    def add(self, secret: str) -> None:
        if len(secret) < SHORTEST or secret in self._known:
            return
        self._known |= {secret}
        pieces = {piece for each in self._known for piece in _pieces(each)}
        self._patterns = tuple(_spelled(piece) for piece in sorted(pieces, key=lambda piece: (-len(piece), piece)))

    def __contains__(self, text: str) -> bool:
        return text in self._known

    def hide(self, text: str) -> str:
        """Only them, in every spelling in which an address, a body or a page may carry them."""
        for pattern in self._patterns:
            text = pattern.sub(MASK, text)
        return text

    # Taken out first: a mask in the middle of one would keep it from being found.

    def text(self, text: str) -> str:
        return mask_text(self.hide(text))

    def url(self, url: str) -> str:
        return mask_url(self.hide(url))

    def tree(self, tree: Any) -> Json:
        return mask_json(self._hidden(tree) if self._patterns else tree)

    def _hidden(self, tree: Any) -> Any:
        if isinstance(tree, dict):
            return {name: child if name in _OURS else self._hidden(child) for name, child in tree.items()}
        if isinstance(tree, list):
            return [self._hidden(child) for child in tree]
        return self.hide(tree) if isinstance(tree, str) else tree

    @contextlib.contextmanager
    def kept_out_of_errors(self) -> Iterator[None]:
        """Errors speak of pages and addresses, and are told and recorded like anything else."""
        try:
            yield
        except RemitError as problem:
            problem.what, problem.where = self.hide(problem.what), self.hide(problem.where)
            problem.next_step = self.hide(problem.next_step)
            problem.args = (problem.what,)
            raise


def _pieces(secret: str) -> Iterator[str]:
    """Of about the same length: a short last one would be found where it does not belong."""
    size = -(-len(secret) // -(-len(secret) // _PIECE))
    return (secret[start : start + size] for start in range(0, len(secret), size))


def _spelled(secret: str) -> re.Pattern[str]:
    """Each character as it is, percent-encoded once or twice, or escaped as in JSON or HTML; hosts in lower case."""
    # Atomic: a row of backslashes may be as many characters or half of them, and nobody is to try all the ways.
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
