"""Searches whole files for credentials, before and after each step, so that an agent is never shown such a file.

The findings that a person approves are about new content only. A file that held a credential before has it afterwards
too, and its diff may quote the lines around it.
"""

from typing import Final

from remit.effects.plans.virtual_tree import VirtualTree
from remit.masking.secrets import find_secrets

MAX_FILE: Final = 1 << 20
"""Bytes of one content. A larger one is not searched."""
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
        return self._remaining >= 0 and is_free_of_credentials(content)


def is_free_of_credentials(content: bytes) -> bool:
    """Whether the content was searched in full and nothing in it looks like a credential."""
    if len(content) > MAX_FILE or _NUL in content:
        return False
    try:
        return not find_secrets(content.decode("utf-8"))
    except UnicodeDecodeError:
        return False
