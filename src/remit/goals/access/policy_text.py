"""A policy file split into its policies before the engine reads any of it. Pure.

The engine parses by recursion and has no limit of its own. Two thousand brackets end the process, and nested chains
behind `has` take exponential time. So this module accepts only text that is shallow and short, and that means the same
to the engine, to this module and to a person who reads it.
"""

import re
from typing import Final, NamedTuple

from remit.contracts.goals.access import MAX_FILE_BYTES
from remit.core.errors import Reason, RefusedError

MAX_NESTING: Final = 32
MAX_POLICY_BYTES: Final = 16 << 10

# The tokens are those of the engine: a comment ends with its line, a string with the next quote that is not escaped.
# This module is stricter: a string must end on its line, and outside of strings and comments only ASCII is allowed.
_TOKEN: Final = re.compile(
    r"""(?P<blank>[ \t\r\n]++|//[^\r\n]*+)|(?P<string>"(?:[^"\\\r\n]|\\[^\r\n])*+")"""
    r"""|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<end>;)|(?P<word>[A-Za-z_][A-Za-z0-9_]*+)|(?P<dot>\.)|(?P<other>[!#-~])"""
)
_CLOSES: Final = {"(": ")", "[": "]", "{": "}"}
_LINE_ENDS: Final = re.compile(r"\r\n|\r|\n")


class PolicyText(NamedTuple):
    """The text of one policy, and where it begins."""

    file: str
    line: int
    text: str

    @property
    def where(self) -> str:
        return f"{self.file}, line {self.line}"


def split_policies(file: str, text: str) -> tuple[PolicyText, ...]:
    """Split a file into its policies, in order, each with its annotations and its semicolon.

    The engine checks later whether each policy is valid.

    Raises:
        RefusedError: The text exceeds a limit, or cannot be split.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_FILE_BYTES:
        what = f"the policy file has more than {MAX_FILE_BYTES >> 10} KiB, which is the limit"
        raise _refused(what, file, "Split it into several files.", Reason.TOO_LARGE)
    _require_visible(file, text)
    found: list[PolicyText] = []
    opened: list[str] = []
    before: tuple[str, str] = ("", "")  # the last two tokens that are not blank
    begin, begin_line, at, line = -1, 1, 0, 1
    while at < len(text):
        where = f"{file}, line {line}"
        token = _TOKEN.match(text, at)
        if token is None:
            raise _refused("a string does not end on its line, or Cedar does not know a character at this place", where)
        kind, at = str(token.lastgroup), token.end()
        if kind == "blank":  # no other token contains a line end
            line += len(_LINE_ENDS.findall(token[0]))
            continue
        if begin < 0:
            begin, begin_line = token.start(), line
        if kind in {"open", "close"}:
            _follow(token[0], opened, where)
        if before[0] == "has" and kind == "dot":
            raise _refused(
                "`has` is followed by a chain of attributes",
                where,
                "Ask for one attribute at a time: `context has a && context.a has b`.",
            )
        if kind == "end":
            found.append(_statement(file, begin_line, text[begin:at]))
            begin = -1
            opened.clear()
        before = (before[1], token[0] if kind == "word" else kind)
    if begin >= 0:
        where = f"{file}, line {begin_line}"
        raise _refused("the file ends in the middle of a policy", where, "Each policy ends with a semicolon.")
    return tuple(found)


def _follow(bracket: str, opened: list[str], where: str) -> None:
    """Refuse brackets that do not match. While the engine recovers from such a bracket, it still nests."""
    if bracket in _CLOSES:
        opened.append(bracket)
        if len(opened) > MAX_NESTING:
            raise _refused(
                f"brackets are nested more than {MAX_NESTING} deep",
                where,
                "Split the condition over several policies.",
                Reason.TOO_DEEP,
            )
    elif not opened or _CLOSES[opened.pop()] != bracket:
        raise _refused(f"`{bracket}` closes a bracket that was not opened", where)


def _statement(file: str, line: int, text: str) -> PolicyText:
    statement = PolicyText(file, line, text)
    if len(text.encode("utf-8")) > MAX_POLICY_BYTES:
        what = f"the policy has more than {MAX_POLICY_BYTES >> 10} KiB, which is the limit"
        raise _refused(what, statement.where, "Split it into several policies.", Reason.TOO_LARGE)
    return statement


def _require_visible(file: str, text: str) -> None:
    """Refuse invisible characters (direction marks, zero-width, control): a person must read what the engine reads."""
    for at, character in enumerate(text):
        if not (character.isprintable() or character in "\t\r\n"):
            raise _refused(
                f"there is an invisible character here, U+{ord(character):04X}",
                f"{file}, line {len(_LINE_ENDS.findall(text, 0, at)) + 1}",
                "Remove it. In a string, write it as an escape such as \\u{200B}.",
            )


def _refused(
    what: str, where: str, next_step: str = "Correct it at this place.", reason: Reason = Reason.MALFORMED
) -> RefusedError:
    return RefusedError(reason, what, where=where, next_step=next_step)
