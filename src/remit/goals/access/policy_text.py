"""Policy text taken apart into its policies, before the engine sees any of it. Pure.

The engine parses by recursion and has no limit of its own: two thousand brackets end the process, and a chain behind
`has`, nested in itself, takes it exponential time. So what it is given here is shallow, short, and of one meaning to
the engine, to this reader and to a person's eye.
"""

import re
from typing import Final, NamedTuple

from remit.contracts.goals.access import MAX_FILE_BYTES
from remit.core.errors import Reason, RefusedError

MAX_NESTING: Final = 32
MAX_POLICY_BYTES: Final = 16 << 10

# As the engine's own: a comment ends with its line, a string with the next quote that is not escaped. Stricter in that
# a string may not run over a line, and that outside of strings and comments all is ASCII.
_TOKEN: Final = re.compile(
    r"""(?P<blank>[ \t\r\n]++|//[^\r\n]*+)|(?P<string>"(?:[^"\\\r\n]|\\[^\r\n])*+")"""
    r"""|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<end>;)|(?P<word>[A-Za-z_][A-Za-z0-9_]*+)|(?P<dot>\.)|(?P<other>[!#-~])"""
)
_CLOSES: Final = {"(": ")", "[": "]", "{": "}"}
_LINE_ENDS: Final = re.compile(r"\r\n|\r|\n")


class PolicyText(NamedTuple):
    """One policy, as it is written, and where it begins."""

    file: str
    line: int
    text: str

    @property
    def where(self) -> str:
        return f"{self.file}, line {self.line}"


def split_policies(file: str, text: str) -> tuple[PolicyText, ...]:
    """The policies of a file in their order, each with its annotations and its semicolon. Refuses what is not bounded.

    Whether a policy means anything is for the engine to say.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_FILE_BYTES:
        what = f"a policy file may have at most {MAX_FILE_BYTES >> 10} KiB"
        raise _refused(what, file, "Split it into several files.", Reason.TOO_LARGE)
    _require_visible(file, text)
    found: list[PolicyText] = []
    opened: list[str] = []
    before: tuple[str, str] = ("", "")  # the last two that say something
    begin, begin_line, at, line = -1, 1, 0, 1
    while at < len(text):
        where = f"{file}, line {line}"
        token = _TOKEN.match(text, at)
        if token is None:
            raise _refused(
                "a string does not end on its line, or a character stands here that Cedar does not know", where
            )
        kind, at = str(token.lastgroup), token.end()
        if kind == "blank":  # nothing else holds the end of a line
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
    """Brackets that do not fit are refused here as well: while it recovers from one, the engine nests all the same."""
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
        raise _refused(f"`{bracket}` closes a bracket that is not open", where)


def _statement(file: str, line: int, text: str) -> PolicyText:
    statement = PolicyText(file, line, text)
    if len(text.encode("utf-8")) > MAX_POLICY_BYTES:
        what = f"a policy may have at most {MAX_POLICY_BYTES >> 10} KiB"
        raise _refused(what, statement.where, "Split it into several policies.", Reason.TOO_LARGE)
    return statement


def _require_visible(file: str, text: str) -> None:
    """What a person reads must be what the engine reads: no direction marks, no zero-width and control characters."""
    for at, character in enumerate(text):
        if not (character.isprintable() or character in "\t\r\n"):
            raise _refused(
                f"an invisible character stands here, U+{ord(character):04X}",
                f"{file}, line {len(_LINE_ENDS.findall(text, 0, at)) + 1}",
                "Remove it; in a string it can be written as an escape, such as \\u{200B}.",
            )


def _refused(
    what: str, where: str, next_step: str = "Mend it there.", reason: Reason = Reason.MALFORMED
) -> RefusedError:
    return RefusedError(reason, what, where=where, next_step=next_step)
