"""Finds content in the result of an edit that a person has to approve by name (PX-24). Needs the standard library only.

Searches the lines that the edit changes for credentials and commands. It reads whole lines, because a value is a secret
by the name beside it, and that name may be older than the edit.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from remit.effects.edits.data_files import PLAIN_CHECKS, Check, ContentFinding
from remit.effects.edits.splice import Edited, new_ranges
from remit.masking.secrets import find_secrets, prepare

MAX_FINDINGS: Final = 100
"""The limit for one rule. Further findings would tell the reader nothing new."""

_DATA: Final = (".json", ".yaml", ".yml", ".toml", ".csv")

_PROGRAM_NAMES: Final = (
    ".sh", ".bash", ".zsh", ".fish", ".ps1", ".bat", ".cmd", ".exe", ".dll", ".so", ".dylib", ".jar", ".com", ".msi",
)  # fmt: skip
_PROGRAM_STARTS: Final = (
    (b"#!", "it begins with #!"),
    (b"\xef\xbb\xbf#!", "it begins with #!"),
    (b"\x7fELF", "it is an ELF file"),
    (b"\xfe\xed\xfa\xce", "it is a Mach-O file"),
    (b"\xfe\xed\xfa\xcf", "it is a Mach-O file"),
    (b"\xce\xfa\xed\xfe", "it is a Mach-O file"),
    (b"\xcf\xfa\xed\xfe", "it is a Mach-O file"),
    (b"\xca\xfe\xba\xbe", "it is Java byte code or a Mach-O file"),
    (b"\0asm", "it is a WebAssembly module"),
)
_HEADER: Final = 1_024

_COMMAND: Final = re.compile(
    r"\$\(|`[^`\n]++`|<\("
    r"|(?:^|[\"':,\[]|(?<![^\s])-)[ \t]*+[\"']?(?:/[\w/]{0,40}/)?(?:(?:ba|z|da|k)?sh[ \t]++-\w*c\b"
    r"|(?i:cmd(?:\.exe)?[ \t]++/c\b|powershell|pwsh\b))",
    re.MULTILINE,
)
_PATH: Final = r"(?:sudo[ \t]++)?(?:/[\w/]{0,40}/)?"
_SHELLS: Final = r"(?:ba|z|da|k)?sh"
_PROGRAMS: Final = (
    r"(?:rm|dd|mkfs|chmod|chown|curl|wget|nc|ncat|ssh|scp|sudo|pip3?|npm|npx|yarn|python3?|perl|ruby|php|kubectl|docker"
    r"|systemctl|eval|(?:ba|z|da|k)?sh)"
)
_ALSO_WORDS: Final = r"(?:cat|cd|cp|echo|exec|export|git|kill|ls|make|mkdir|mv|node|source|tar|touch)"
"""Programs whose names are ordinary words too. They are findings after `&&` and `||`, and not after a semicolon."""
_SHELL_LINES: Final = (
    (
        re.compile(rf"\w[^\S\n]++[^\s|]{{1,200}}+[ \t]*+\|[ \t]*+{_PATH}{_SHELLS}(?=[ \t]*+(?:[\"'\r\n;&|)-]|$))"),
        "something is piped into a shell",
    ),
    (re.compile(r"(?<![\w./-])(?:curl|wget)[ \t]++[^\n|]{1,300}+\|"), "a download is piped into another program"),
    (re.compile(r"(?<![\w./-])rm[ \t]++-\w{0,8}[rR]\w{0,8}[ \t]++[\w/~.*$\"'-]"), "rm with its files"),
    (re.compile(rf";[ \t]*+{_PATH}{_PROGRAMS}[ \t]++\S"), "a command after a semicolon"),
    (re.compile(rf"(?:&&|\|\|)[ \t]*+{_PATH}(?:{_PROGRAMS}|{_ALSO_WORDS})[ \t]++\S"), "a command after another"),
)
_ESCAPE: Final = re.compile(r"\\(?:u00|x)([2-7][0-9A-Fa-f])")
_NEWLINE: Final = b"\n"


def find_in_result(
    path: str, edited: Edited, mode: int, checks: Mapping[str, Check] = PLAIN_CHECKS
) -> list[ContentFinding]:
    """Return all findings. `checks` are for data files, by the end of their names. A missing check is a finding."""
    return [
        *find_in_final(path, edited.content, mode, checks),
        *find_in_added(path, edited),
    ]


def find_in_final(
    path: str, content: bytes, mode: int, checks: Mapping[str, Check] = PLAIN_CHECKS
) -> list[ContentFinding]:
    """Return the findings about the whole content: syntax, object tags, and whether it can be executed."""
    found = [
        ContentFinding("executable", "", f"the file could be executed: {why}") for why in _programs(path, content, mode)
    ]
    suffix = _suffix(path)
    if suffix in checks:
        found += checks[suffix](content)[:MAX_FINDINGS]
    elif suffix in _DATA:
        found.append(ContentFinding("syntax", "", f"{suffix} files cannot be checked in this process"))
    return found


def find_in_added(path: str, edited: Edited) -> list[ContentFinding]:
    """Return the findings about new content: credentials, and in data files commands."""
    secrets: list[ContentFinding] = []
    for window in _windows(edited.content, new_ranges(edited)):
        secrets += islice(_secrets(window), MAX_FINDINGS - len(secrets))
    return [*find_commands(path, edited), *secrets]


def find_commands(path: str, edited: Edited) -> list[ContentFinding]:
    """Return the commands in the new content of a data file."""
    commands: list[ContentFinding] = []
    for window in _windows(edited.content, new_ranges(edited)) if _suffix(path) in _DATA else ():
        commands += islice(_commands(window), MAX_FINDINGS - len(commands))
    return commands


def _suffix(path: str) -> str:
    name = path.rpartition("/")[2].lower()
    return name[name.rfind(".") :] if "." in name else ""


# --- programs --------------------------------------------------------------------------------------------------------


def _programs(path: str, content: bytes, mode: int) -> Iterator[str]:
    if mode & 0o111:
        yield "it has an execute permission"
    if _suffix(path) in _PROGRAM_NAMES:
        yield f"its name ends in {_suffix(path)}"
    for start, why in _PROGRAM_STARTS:
        if content.startswith(start):
            yield why
    if content.startswith(b"MZ") and b"\0" in content[:_HEADER]:
        yield "it is a program of Windows or DOS"
    if content[2:4] == b"\r\n" and content[1:2] in (b"\x0c", b"\x0d", b"\x0e"):
        yield "it is Python byte code"


# --- new content -----------------------------------------------------------------------------------------------------


class _Window:
    """Whole lines that contain new bytes, and a walk through them."""

    def __init__(self, content: bytes, start: int, end: int, ranges: list[tuple[int, int]]) -> None:
        self._content = content
        self._start = start
        self._ranges = ranges
        self._is_all_new = ranges == [(start, end)]
        self.text, self._encoding = _decoded(content[start:end])
        self._chars, self._bytes = 0, start

    def is_new(self, start: int, end: int) -> bool:
        """Whether a range of the text touches the new bytes. Call it with ranges from left to right."""
        if self._is_all_new:
            return True
        if start < self._chars:
            self._chars, self._bytes = 0, self._start
        self._bytes += len(self.text[self._chars : start].encode(self._encoding))
        self._chars = start
        last = self._bytes + len(self.text[start:end].encode(self._encoding))
        place = bisect_right(self._ranges, (last, len(self._content)))
        return place > 0 and self._ranges[place - 1][1] >= self._bytes

    def line(self, text: str, place: int) -> str:
        return f"line {self._content.count(_NEWLINE, 0, self._start) + text.count(chr(10), 0, place) + 1}"


def _decoded(piece: bytes) -> tuple[str, str]:
    """Return any bytes as text with its encoding. One invalid byte must not stop the scan of the rest."""
    try:
        return piece.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return piece.decode("latin-1"), "latin-1"


def _windows(content: bytes, ranges: list[tuple[int, int]]) -> Iterator[_Window]:
    start = end = -1
    inside: list[tuple[int, int]] = []
    for first, last in ranges:
        if inside and first > end:
            yield _Window(content, start, end, inside)
            inside = []
        if not inside:
            start = content.rfind(_NEWLINE, max(end, 0), first) + 1 or max(end, 0)
        if not inside or last > end:  # one search per line, however many ranges are on it
            newline = content.find(_NEWLINE, last)
            end = len(content) if newline < 0 else newline
        inside.append((first, last))
    if inside:
        yield _Window(content, start, end, inside)


def _secrets(window: _Window) -> Iterator[ContentFinding]:
    for start, end, what in find_secrets(window.text):
        if window.is_new(start, end):
            yield ContentFinding("credential", window.line(window.text, start), f"this looks like {what}")


def _commands(window: _Window) -> Iterator[ContentFinding]:
    plain = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), window.text)
    for found in _COMMAND.finditer(plain):
        # Where an escape hides a character, the offsets differ. Then the whole window is treated as new.
        if plain != window.text or window.is_new(*found.span()):
            shown = "`...`" if found[0].startswith("`") else found[0].strip(" \t\"':,[-")
            yield ContentFinding("command", window.line(plain, found.start()), f"this looks like a command: {shown}")
    for looks, what in _SHELL_LINES:  # described and not quoted, because an address in it may contain a password
        for found in looks.finditer(plain):
            if plain != window.text or window.is_new(*found.span()):
                yield ContentFinding("command", window.line(plain, found.start()), f"this looks like a command: {what}")


prepare()  # so that the processes that are forked from this one need not
