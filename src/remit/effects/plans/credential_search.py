"""Searches whole files for credentials, before and after each step, so that an agent is never shown such a file.

The findings that a person approves are about new content only. A file that held a credential before has it afterwards
too, and its diff may quote the lines around it.

A file of which the mask hides a value from people is treated alike, even if the value does not look random. An agent
that sees whether its edits match could find out such a value letter by letter. Only e-mail addresses may be masked.
"""

from typing import Final

from remit.effects.plans.virtual_tree import VirtualTree
from remit.masking import hides_key, hides_value, mask_sql
from remit.masking.secrets import find_secrets

MAX_FILE: Final = 1 << 20
"""Bytes of one content. A larger one is not searched."""
MAX_MASKED: Final = MAX_FILE
"""Characters of all different lines of a plan. With more, it is not searched: masking so many takes about a second."""
_LINE_COST: Final = 16
"""Masking a shorter line takes as long as masking one of so many characters."""
MAX_TOGETHER: Final = 8 << 20
"""Bytes of all contents of a plan, so that the search takes about a second at most."""
PARTLY_SEARCHED: Final = "credentials and commands were searched only in the first"
"""The start of the remark about saved rows that were not searched in full."""
_NUL: Final = b"\0"


class CredentialSearch:
    """Searches the contents of one plan. A content that cannot be searched is treated as if it held a credential."""

    def __init__(self, tree: VirtualTree) -> None:
        self._tree = tree
        self._remaining = MAX_TOGETHER
        self._lines = LineSearch()
        self._results: dict[str, bool] = {}
        """By the digest of the content, since most contents are the result of one step and the start of another."""

    def is_clean(self, *paths: int | None) -> bool:
        """Whether these paths, as the steps so far leave them, hold nothing that looks like a credential.

        Raises the error of a file that cannot be read.
        """
        return all(path is None or self._is_clean(path) for path in paths)

    def _is_clean(self, path: int) -> bool:
        state, content = self._tree.state(path), self._tree.content(path)
        if state is None or content is None:
            return state is None
        if state.sha256 not in self._results:
            self._results[state.sha256] = self._search(content)
        return self._results[state.sha256]

    def _search(self, content: bytes) -> bool:
        self._remaining -= len(content)
        return self._remaining >= 0 and is_free_of_credentials(content, self._lines)


class LineSearch:
    """Searches lines for values that the mask hides from people, each different line of a plan once."""

    def __init__(self) -> None:
        self._plain: set[str] = set()
        self._remaining = MAX_MASKED

    def is_plain(self, text: str) -> bool:
        """Whether the text was masked in full, and no value is hidden. The mask of a diff knows fewer line ends."""
        if hides_key(text):
            return False
        for line in {*text.split("\n"), *text.splitlines()} - self._plain:
            self._remaining -= max(len(line), _LINE_COST)
            if self._remaining < 0 or hides_value(line):
                return False
            self._plain.add(line)
        return True


def is_free_of_credentials(content: bytes, lines: LineSearch | None = None) -> bool:
    """Whether the content was searched in full, and nothing in it looks like a credential or would be masked."""
    text = _text_of(content)
    return text is not None and not find_secrets(text) and (lines or LineSearch()).is_plain(text)


def is_query_free_of_credentials(content: bytes) -> bool:
    """Whether this is also true of a file with statements, which have masks of their own."""
    text = _text_of(content)
    if text is None or not is_free_of_credentials(content):
        return False
    return mask_sql(text) == text


def _text_of(content: bytes) -> str | None:
    """Return the text of a content that can be searched in full."""
    if len(content) > MAX_FILE or _NUL in content:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None
