"""Checks the words of documentation, messages, docstrings, comments, pages and names of tests.

`make check-words` runs it. Each pattern has the plain words to use instead. A pattern also matches across line breaks,
comment lines, HTML tags and `&nbsp;`. The check does not read text in code style. It reads a string without a space
only where people see it, such as `help=`, a title, an error or printed text. Other strings without a space are names,
such as keys, codes and fault points. With paths as arguments, the check reads only the files below them. `--counts`
prints the number of findings of each pattern, and always succeeds.
"""

import argparse
import ast
import io
import json
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
_SPACED: Final = {name: pattern.replace(" ", r"(?:\s+)") for name, (pattern, _) in PATTERNS.items()}
_COMPILED: Final = {name: re.compile(rf"\b({pattern})\b", re.IGNORECASE) for name, pattern in _SPACED.items()}
_ANY: Final = re.compile(rf"\b(?:{'|'.join(_SPACED.values())})\b", re.IGNORECASE)

PROSE: Final = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "examples", "bench")
PROGRAMS: Final = ("src", "scripts", "examples", "bench", "tests")
"""Folders with Python programs. Of the tests, only the names are checked."""
KINDS: Final = frozenset({".html", ".js", ".yaml", ".yml", ".cedar", ".md", ".sql", ".json", ".toml"})
OTHERS: Final = (
    *("src/**/*.html", "src/**/*.js", "src/**/*.yaml", "src/**/*.yml", "src/**/*.cedar", "src/**/*.md", "src/**/*.sql"),
    *("observability/*", "pyproject.toml", "tests/*/*.toml", "tests/*/*/*.yaml"),
)
NOT_OURS: Final = (
    "docs/reference/confirmation-words.md",  # the words of many languages
    "docs/conformance.md",  # names of tests, which are checked in the tests
    "src/remit/web/static/vendor",
    # Stores have the digest of each migration that they applied, and refuse a file that was changed since, even in a
    # comment. So these keep their comments. A later migration is checked.
    *(f"src/remit/store/migrations/{number}_" for number in ("0001", "0002", "0003", "0004", "0005")),
    "tests/compat/differences.toml",  # the texts of an earlier version
)
DATA: Final = frozenset({"goals/confirmation/lexicon", "goals/finder/words"})
ALLOWED: Final[dict[tuple[str, str], str]] = {
    ("src/remit/web/console/static/js/live.js", "desk"): "stored: names in the event stream",
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
            yield text.count("\n", 0, match.start()), " ".join(match[0].split()), name


_CODE: Final = re.compile(r"(?ms)^( *)(```|~~~).*?^\1\2|``[^`]+``|`[^`\n]+`|https?://[^\s)]+")
_LINK: Final = re.compile(r"\]\([^)\s]+\)")
_LETTERS: Final = re.compile(r"[^\n]")


def without_code(text: str) -> str:
    """Replace code and addresses. The lines keep their places, and no phrase matches across code."""
    text = _blank(_LINK, text) if "](" in text else text
    return _CODE.sub(lambda match: _LETTERS.sub("¤", match[0]), text)


_BLANK_ENTITY: Final = re.compile(r"&(?:nbsp|ensp|emsp|thinsp|#160|#x0*a0);", re.IGNORECASE)
_INLINE_TAG: Final = re.compile(
    r"</?(?:a|abbr|b|bdi|br|cite|code|del|em|i|ins|kbd|mark|q|s|samp|small|span|strong|sub|sup|time|u|var|wbr)\b[^<>]*>",
    re.IGNORECASE,
)
_EMPHASIS: Final = re.compile(r"(?<!\w)[*_]{1,3}(?=\w)|(?<=\w)[*_]{1,3}(?!\w)")
_MARK: Final[dict[str, re.Pattern[str]]] = {
    ".py": re.compile(r"(?m)^[ \t]*#+"),
    ".js": re.compile(r"(?m)^[ \t]*(?://+|/?\*+)"),
    ".sql": re.compile(r"(?m)^[ \t]*-{2,}"),
    **dict.fromkeys((".yml", ".yaml", ".toml", ".cedar"), re.compile(r"(?m)^[ \t]*(?:#+|//+)")),
    ".md": re.compile(r"(?m)^[ \t]*>+"),
}
"""The beginning of a line that continues a comment or a quotation, by the ending of the file's name."""


def _blank(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda match: _LETTERS.sub(" ", match[0]), text)


def as_read(text: str, kind: str) -> str:
    """Return the text as a reader sees it: without code, entities, emphasis and marks of comments."""
    if kind in {".js", ".html"}:
        text = text.replace("`", '"') if kind == ".html" else _templates_as_text(text)
    text = without_code(text)
    if "&" in text:
        text = _blank(_BLANK_ENTITY, text)
    if kind in _MARK:
        text = _blank(_MARK[kind], text)
    return _blank(_EMPHASIS, text) if kind == ".md" else text


_JS_COMMENT: Final = re.compile(r"(?s)(?<![:\w\"'])//[^\n]*|/\*.*?\*/")


def _templates_as_text(source: str) -> str:
    """Turn the backticks of template literals into quotation marks. In comments they mark code, and stay."""
    parts, end = [], 0
    for comment in _JS_COMMENT.finditer(source):
        parts += [source[end : comment.start()].replace("`", '"'), comment[0]]
        end = comment.end()
    return "".join([*parts, source[end:].replace("`", '"')])


SHOWN: Final = frozenset(
    {
        *("help", "short_help", "epilog", "label", "description", "title", "subtitle", "summary", "caption", "prompt"),
        *("message", "metavar", "next_step", "heading", "placeholder", "tooltip", "reason", "text", "content"),
    }
)
"""Names of arguments, variables and keys whose values people read."""
_SHOWS: Final = re.compile(
    r"(^|\.)(echo|secho|style|print|confirm|prompt|write|argument|option|Choice|add_argument|add_column|add_row"
    r"|\w*(Error|Exception|Parameter))$"
)
"""Functions whose arguments people read."""


_TEST: Final = re.compile(r"(?m)^[ \t]*(?:async )?def (test_\w+)")


def names_of_tests(source: str) -> Iterator[Text]:
    for match in _TEST.finditer(source):
        yield Text(source.count("\n", 0, match.start(1)) + 1, match[1].replace("_", " "))


def texts_of_python(source: str) -> Iterator[Text]:
    nodes = list(ast.walk(ast.parse(source)))
    inside = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    shown = {id(part) for node in nodes for each in _shown(node) for part in _strings(each)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            text = node.value
        else:
            continue
        if " " in text.strip() or id(node) in shown or _looks_shown(text):
            yield Text(node.lineno, text)
    yield from _comments(source)


def _looks_shown(text: str) -> bool:
    """Return whether a string of one word looks like a text: a capital letter first, or the end of a sentence.

    The word of an f-string is always read, if its other parts are values only.
    """
    word = text.replace("…", "")
    return bool(re.fullmatch(r"[A-Z][a-z]+[.!?:]?|[a-z]+[.!?]", word)) or ("…" in text and word.isalpha())


def _shown(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions in a node whose strings people read, even if the string is one word."""
    match node:
        case ast.keyword(arg=str(name), value=value) if name in SHOWN:
            yield value
        case ast.Call(func=function, args=values) if _SHOWS.search(ast.unparse(function)):
            yield from values
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            yield from (value for key, value in pairs if isinstance(key, ast.Constant) and key.value in SHOWN)
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ) if name.lower() in SHOWN:
            yield value
        case ast.Expr(value=ast.Constant() as value):  # a docstring
            yield value


def _strings(shown: ast.expr) -> Iterator[ast.expr]:
    """Yield the strings that are the value of an expression, or one of its values."""
    match shown:
        case ast.Constant() | ast.JoinedStr():
            yield shown
        case ast.IfExp(body=one, orelse=other) | ast.BinOp(left=one, right=other):
            yield from (*_strings(one), *_strings(other))
        case ast.BoolOp(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
            for each in parts:
                yield from _strings(each)


_HASH: Final = re.compile("#.*")


def _comments(source: str) -> Iterator[Text]:
    """Yield the comments. A comment and the lines of comments below it are one text: a phrase may run over them."""
    if not _ANY.search(_blank(_MARK[".py"], "\n".join(_HASH.findall(source)))):
        return  # to read the tokens takes ten times as long
    found: list[Text] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line = token.start[0]
        is_continued = token.line.lstrip().startswith("#")
        if found and is_continued and line == found[-1].line + found[-1].text.count("\n") + 1:
            found[-1] = Text(found[-1].line, f"{found[-1].text}\n{token.string}")
        else:
            found.append(Text(line, token.string))
    yield from found


_SQL_CODE: Final = re.compile(r"(?s)(--[^\n]*|/\*.*?\*/)|.")
_VALUE: Final = re.compile(rf'"({"|".join(sorted(SHOWN))})"\s*:\s*("(?:[^"\\\n]|\\.)*")')
_QUERY: Final = re.compile(r"(?m)^( *)(?:- )?expr:.*(?:\n(?:\1 +.*)?$)*")


def texts_of(path: Path, root: Path) -> Iterator[Text]:
    source = path.read_text(encoding="utf-8")
    match path.suffix:
        case ".py":
            yield from names_of_tests(source) if path.is_relative_to(root / "tests") else texts_of_python(source)
        case ".json":
            for found in _VALUE.finditer(source):
                yield Text(source.count("\n", 0, found.start()) + 1, json.loads(found[2]))
        case ".sql":
            yield Text(1, _SQL_CODE.sub(lambda match: match[1] or _LETTERS.sub(" ", match[0]), source))
        case ".yml" | ".yaml":
            yield Text(1, _blank(_QUERY, source))
        case ".html":
            yield Text(1, source)
            yield Text(1, _blank(_INLINE_TAG, source))  # the first one has the attributes
        case ".md":
            yield Text(1, _blank(_INLINE_TAG, source))
        case _:
            yield Text(1, source)


def files(root: Path, below: Sequence[Path]) -> Iterator[Path]:
    prose = [root / name for name in PROSE]
    found = [
        *(path for path in prose if path.is_file()),
        *(path for folder in prose if folder.is_dir() for path in folder.rglob("*.md")),
        *(path for folder in PROGRAMS for path in (root / folder).rglob("*.py")),
        *(path for pattern in OTHERS for path in root.glob(pattern) if path.suffix in KINDS),
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
        found = (
            Finding(f"{name}:{text.line + line}", words, pattern)
            for text in texts_of(path, root)
            for line, words, pattern in find_in(as_read(text.text, path.suffix))
            if (name, words) not in ALLOWED
        )
        yield from dict.fromkeys(found)  # a text that was read in two ways has each finding once


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
