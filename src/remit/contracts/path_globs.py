"""The globs that a token's `paths` may contain: paths relative to the root, in which parts may be left open.

Every glob is checked when a token is issued and when it is read, so no later code meets an unclear one.
`remit.execution.protected_paths` decides whether a path fits a glob.
"""

from typing import Annotated, Final

from pydantic import AfterValidator, Field

MAX_GLOBS: Final = 100
MAX_GLOB: Final = 200
ANY_DEPTH: Final = "**"


def require_glob(text: str) -> str:
    """Return the glob unchanged.

    Raises:
        ValueError: The glob could mean another file than its reader expects.
    """
    if not text or len(text) > MAX_GLOB or not text.isprintable():
        raise ValueError(f"a glob has 1 to {MAX_GLOB} printable characters")
    if text.startswith("/"):
        raise ValueError("a glob is relative to the root, without a slash at its start")
    if "\\" in text:
        raise ValueError("a glob separates folders by a slash, and has no backslash")
    parts = text.removesuffix("/").split("/")
    if any(part in {"", ".", ".."} for part in parts):
        raise ValueError("a glob has no empty part and no part . or ..")
    if any(ANY_DEPTH in part and part != ANY_DEPTH for part in parts):
        raise ValueError("in a glob ** is a whole part, such as docs/**")
    return text


PathGlob = Annotated[str, Field(min_length=1, max_length=MAX_GLOB), AfterValidator(require_glob)]
"""`*`, `?` and `[...]` stand for a part of one name, `**` for any number of folders. Case matters."""
