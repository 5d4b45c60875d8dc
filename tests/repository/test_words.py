"""The check of words can fail: a phrase planted in each kind of text is found, at its line."""

from pathlib import Path
from typing import Final

import pytest

from scripts import check_words

# Each planted text has the finding of its phrase at the given line.
PLANTED: Final[dict[str, tuple[str, str, str]]] = {
    # White space, also as HTML and in comments.
    "a line break in a page": ("docs/a.md", "Of the callers, no\none may do it.\n", "1: no one"),
    "two spaces": ("docs/a.md", "Here no  one may do it.\n", "1: no one"),
    "a tag in a page": ("docs/a.md", "Here <b>no</b> one may do it.\n", "1: no one"),
    "emphasis": ("docs/a.md", "Here **no** one, _nobody_ at all.\n", "1: nobody"),
    "emphasis in a phrase": ("docs/a.md", "Here **no** one may do it.\n", "1: no one"),
    "a link": ("docs/a.md", "Here [no](a.md) one may do it.\n", "1: no one"),
    "a quotation": ("docs/a.md", "> Here no\n> one may do it.\n", "1: no one"),
    "an entity": ("src/remit/web/a.html", "<p>no&nbsp;one</p>\n", "1: no one"),
    "a tag": ("src/remit/web/a.html", "<p>\n<b>no</b> one</p>\n", "2: no one"),
    "an attribute": ("src/remit/web/a.html", '<a title="Nobody">x</a>\n', "1: nobody"),
    "a line break in HTML": ("src/remit/web/a.html", "<p>was taken\n   back</p>\n", "1: taken back"),
    "a line break in a docstring": ("src/remit/a.py", '"""The file is taken\nback."""\n', "1: taken back"),
    "a line break in comments": ("src/remit/a.py", "# The file is taken\n# back.\n", "1: taken back"),
    "the line below a comment": ("src/remit/a.py", "x = 1  # it is taken\n# back later\n", "1: taken back"),
    "a line break in JavaScript": ("src/remit/a.js", "// It is taken\n// back.\n", "1: taken back"),
    "a block comment": ("src/remit/a.js", "/* It is taken\n * back. */\n", "1: taken back"),
    # Texts of one word.
    "help": ("src/remit/a.py", 'f(help="Whoever.")\n', "1: whoever"),
    "help in small letters": ("src/remit/a.py", 'f(help="nobody")\n', "1: nobody"),
    "a label": ("src/remit/a.py", 'f(label="elsewhere")\n', "1: elsewhere"),
    "a choice of titles": ("src/remit/a.py", 'f(title="x" if y else "nobody")\n', "1: nobody"),
    "a description in a dictionary": ("src/remit/a.py", 'x = {"description": "nobody"}\n', "1: nobody"),
    "a summary": ("src/remit/a.py", 'class A:\n    summary: str = "nobody"\n', "2: nobody"),
    "printed text": ("src/remit/a.py", 'click.echo("nobody")\n', "1: nobody"),
    "an argument of the command line": ("src/remit/a.py", 'click.argument("whoever")\n', "1: whoever"),
    "an error": ("src/remit/a.py", 'raise click.UsageError("nobody")\n', "1: nobody"),
    "a docstring of one word": ("src/remit/a.py", '"""nobody"""\n', "1: nobody"),
    "a word in a table of words": ("src/remit/a.py", 'x = {"key": "Elsewhere"}\n', "1: elsewhere"),
    "an f-string": ("src/remit/a.py", 'x = f"{y}nobody"\n', "1: nobody"),
    "a sentence in a template literal": ("src/remit/a.js", "x = `Nobody has ${y}`;\n", "1: nobody"),
    "a word in a template literal": ("src/remit/a.js", "\nx = `nobody`;\n", "2: nobody"),
    # Files of every kind.
    "a comment in SQL": ("src/remit/store/migrations/0006_x.sqlite.sql", "-- For nobody.\nSELECT 1;\n", "1: nobody"),
    "a comment in SQL over two lines": ("src/remit/a.sql", "SELECT 1;\n-- For no\n-- one.\n", "2: no one"),
    "a comment in YAML": ("observability/a.yml", "# For no\n# one.\n", "1: no one"),
    "a summary in YAML": ("observability/a.yml", "a:\n  summary: Nobody answered.\n", "2: nobody"),
    "a description in JSON": ("observability/a.json", '{\n "description": "For nobody."\n}\n', "2: nobody"),
    "a title in JSON": ("observability/a.json", '{"title": "Requests by door"}\n', "1: door"),
    "a comment in TOML": ("pyproject.toml", "x = 1 # for nobody\n", "1: nobody"),
    "a promise": ("tests/conformance/promises.toml", 'A = "For nobody."\n', "1: nobody"),
    "an example": ("examples/a.py", '"""For nobody."""\n', "1: nobody"),
    "a benchmark": ("bench/a.py", "print('for nobody')\n", "1: nobody"),
    "the page of the benchmarks": ("bench/README.md", "For nobody.\n", "1: nobody"),
    "the name of a test": ("tests/core/test_a.py", "def test_nobody_may(): ...\n", "1: nobody"),
}
ALLOWED: Final[dict[str, tuple[str, str]]] = {
    "code in a page": ("docs/a.md", "The label `nobody`.\n\n```\nnobody\n```\n"),
    "code in a comment of JavaScript": ("src/remit/a.js", "// The event `desk.closed`.\n"),
    "SQL": ("src/remit/a.sql", "SELECT door FROM road; -- the operations\n"),
    "a query": ("observability/a.yml", "a:\n  - expr: sum by (door) (x)\n    b: |\n      text\n"),
    "a query over two lines": ("observability/a.yml", "a:\n  - expr: >\n      sum by (door) (x)\n  - b: text\n"),
    "a query of a dashboard": ("observability/a.json", '{"expr": "sum by (door) (x)", "title": "Requests"}\n'),
    "code in a phrase": ("src/remit/a.py", '"""Of no `x` one, by `y` and by z."""\n'),
    "a name": ("src/remit/a.py", 'x = {"door": f("door"), f"{y}.door": 1}\n'),
    "two comments": ("src/remit/a.py", "f(  # it is taken\n    1,  # back\n)\n"),
    "a migration that stores have applied": ("src/remit/store/migrations/0001_x.sqlite.sql", "-- For nobody.\n"),
}


def findings(root: Path, name: str, text: str) -> list[str]:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    found = list(check_words.check(root))
    assert len(set(found)) == len(found), "a finding is reported twice"
    return [f"{finding.where.removeprefix(f'{name}:')}: {finding.words.lower()}" for finding in found]


@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_phrase_is_found(tmp_path: Path, case: str) -> None:
    name, text, finding = PLANTED[case]
    assert finding in findings(tmp_path, name, text)


@pytest.mark.parametrize("case", ALLOWED)
def test_code_and_names_pass(tmp_path: Path, case: str) -> None:
    assert findings(tmp_path, *ALLOWED[case]) == []


def test_every_allowed_word_is_there() -> None:
    """An entry for words that are gone would allow them again."""
    for (name, words), reason in check_words.ALLOWED.items():
        assert words in (check_words.HERE / name).read_text(encoding="utf-8"), reason
