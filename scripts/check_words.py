"""Checks the words of documentation, messages, docstrings, comments, pages and names of tests.

`make check-words` runs it. Each pattern has the plain words to use instead. The check does not read text in code style.
It does not read strings without a space either, because these are names, such as keys, codes and fault points. With
paths as arguments, it reads only the files below them. `--counts` prints the number of findings of each pattern, and
always succeeds.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).resolve().parent.parent

_TAKE: Final = "take|takes|took|taken|taking|give|gives|gave|given|giving"
PATTERNS: Final[dict[str, tuple[str, str]]] = {
    "whoever": (r"who(m|so)?ever", "the role: the caller, the approver, the process"),
    "nobody": (r"nobody|no one", "the role, with `no` or `not`: no approver, no process"),
    "somebody": (r"somebody|someone", "the role: a person, another process, another caller"),
    "anybody": (r"anybody|everybody", "the role: every caller, any process, other users"),
    "he": (r"he|him|his|himself|she|hers?|herself", "the role, or singular they"),
    "mend": (r"mend(s|ed|ing)?", "fix, repair"),
    "anew": (r"anew", "again"),
    "for ever": (r"for ever|forever", "permanently, or without end"),
    "taken back": (
        rf"({_TAKE}) (\w+ )?(\w+ )?back(?! to\b)",
        "undo (after a failure), roll back (on request), restore, return",
    ),
    "way back": (r"ways? back|going back(?! to\b)", "undo, rollback, rollback data"),
    "a yes": (
        (
            r"(a|an|the|his|her|its|your|their|this|that|another|one|no|every|each|explicit|of) (yes|no)(es)?"
            r"(?=[,.;:)]| (is|was|of|to|for|from|in|counts|that|which|and|or|does|lets?|comes?|without|by)\b)"
        ),
        "approval, denial; confirmation (of a goal)",
    ),
    "say yes": (r"(say|says|said|saying) (yes|no)", "approve, deny, confirm"),
    "very same": (r"very same|all the same", "the same; nevertheless"),
    "in vain": (r"in vain|by and by|at a stroke|as it were", "plain words for the fact"),
    "door": (r"doors?", "operation, or interface"),
    "road": (r"roads?", "engine, or steps"),
    "desk": (r"desks?", "services"),
    "papers": (r"papers?", "reports, records, documents"),
    "room": (r"rooms?(?! (for|left|to)\b)", "package, service container"),
    "hands": (r"hands(?! (it|them|out|over|on|the|a|to|back)\b)", "effects, executor"),
    "ways in": (r"ways? in(?! (which|the|that|a|an)\b)", "interfaces"),
    "from elsewhere": (r"elsewhere", "on another machine, server or page; remote"),
    "told": (r"(is|are|was|were|be|been|being) (told|said)", "is reported, is shown; receives"),
    "counts": (r"(does|do|did|to) not count|no longer counts?|counts? (no more|any ?more)", "is (not) valid"),
    "vouch": (r"vouch(es|ed|ing)?", "verify, prove"),
    "came of it": (r"(come|comes|came|become|becomes|became) of (it|them|him|that)", "the outcome"),
    "lie about": (r"(lie|lies|lay|lying|lain) (about|around)", "is left, remains"),
}
_COMPILED: Final = {name: re.compile(rf"\b({pattern})\b", re.IGNORECASE) for name, (pattern, _) in PATTERNS.items()}
_ANY: Final = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern, _ in PATTERNS.values()), re.IGNORECASE)

PROSE: Final = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "examples")
NOT_OURS: Final = (
    "docs/reference/confirmation-words.md",  # the words of many languages
    "docs/conformance.md",  # names of tests, which are checked in the tests
    "src/remit/web/static/vendor",
)
DATA: Final = frozenset({"goals/confirmation/lexicon", "goals/finder/words"})
ALLOWED: Final[dict[tuple[str, str], str]] = {
    ("src/remit/goals/service.py", "take back"): "stored: the request and the intent of every rollback of a goal",
}
"""Allowed words, by path and the exact words, each with the reason."""


class Finding(NamedTuple):
    """A pattern that was found, with its place."""

    where: str
    words: str
    name: str

    def __str__(self) -> str:
        return f'words: {self.where}: "{self.words}". Say: {PATTERNS[self.name][1]}.'


class Text(NamedTuple):
    """A text to check, and the line at which it begins."""

    line: int
    text: str


def find_in(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the words and the name of each pattern in a text. One search finds out if there is any."""
    if not _ANY.search(text):
        return
    for name, pattern in _COMPILED.items():
        for match in pattern.finditer(text):
            yield text.count("\n", 0, match.start()), match[0], name


_CODE: Final = re.compile(r"(?ms)^( *)(```|~~~).*?^\1\2|``[^`]+``|`[^`\n]+`|\]\([^)\s]+\)|https?://\S+")
_LETTERS: Final = re.compile(r"[^\n]")


def without_code(text: str) -> str:
    """Replace code and addresses by spaces. The lines keep their places."""
    return _CODE.sub(lambda match: _LETTERS.sub(" ", match[0]), text)


def texts_of_python(source: str, *, tests: bool) -> Iterator[Text]:
    tree = ast.parse(source)
    if tests:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield Text(node.lineno, node.name.replace("_", " "))
        return
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
            yield from _string(node.lineno, "".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield from _string(node.lineno, node.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(token.start[0], token.string)


def _string(line: int, value: str) -> Iterator[Text]:
    if " " in value.strip():
        yield Text(line, value)


def texts_of(path: Path, root: Path) -> Iterator[Text]:
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from texts_of_python(source, tests=path.is_relative_to(root / "tests"))
    else:
        yield Text(1, source)


def files(root: Path, below: Sequence[Path]) -> Iterator[Path]:
    prose = [root / name for name in PROSE]
    found = [
        *(path for path in prose if path.is_file()),
        *(path for folder in prose if folder.is_dir() for path in folder.rglob("*.md")),
        *(root / "src").rglob("*.py"),
        *(path for kind in ("html", "js", "yaml", "cedar", "md") for path in (root / "src").rglob(f"*.{kind}")),
        *(root / "scripts").glob("*.py"),
        *(root / "tests").rglob("*.py"),
    ]
    for path in sorted(set(found)):
        name = path.relative_to(root).as_posix()
        if name.startswith(NOT_OURS) or any(part in name for part in DATA) or path.name == Path(__file__).name:
            continue
        if not below or any(path == each or each in path.parents for each in below):
            yield path


def check(root: Path, below: Sequence[Path] = ()) -> Iterator[Finding]:
    for path in files(root, below):
        name = path.relative_to(root).as_posix()
        for text in texts_of(path, root):
            for line, words, pattern in find_in(without_code(text.text)):
                if (name, words) not in ALLOWED:
                    yield Finding(f"{name}:{text.line + line}", words, pattern)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="check only the files below these paths")
    parser.add_argument("--root", type=Path, default=HERE, help="the project's folder")
    parser.add_argument("--counts", action="store_true", help="print the number of findings, and succeed")
    options = parser.parse_args()
    root = options.root.resolve()
    found = list(check(root, [path.resolve() for path in options.paths]))
    if options.counts:
        counts = Counter((finding.name, finding.where.partition("/")[0]) for finding in found)
        for (name, place), count in sorted(counts.items()):
            print(f"{name}\t{place}\t{count}")
        print(f"all\t\t{len(found)}")
        return 0
    for finding in found:
        print(finding)
    print("words: ok" if not found else f"words: {len(found)} to replace")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
