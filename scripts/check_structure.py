"""Checks the structure of src/remit, so that new readers find their way. Run by `make check-structure`.

Each rule has a limit, and each finding names the place and the next step. `--root` reads another tree, for tests.
"""

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).resolve().parent.parent
AT_THE_ROOT: Final = {
    "__init__": "the public surface",
    "__main__": "`python -m remit`",
    "version": "the version, read by the build",
    "errors": "re-exports for one release",
    "governed": "re-exports for one release",
}
NOUNS_IN_ING: Final = frozenset(
    {
        *("binding", "failure_handling", "framing", "keyring", "masking", "packet_masking", "pruning", "recording"),
        *("scoring", "signing", "staging", "templating", "tracing", "acting"),
    }
)
MOST_IN_ING: Final = 15
MOST_TWICE: Final = 15
MOST_LINES: Final = 800
LATE_IMPORTS: Final = {
    "__init__.py": "the public surface loads a name on first use",
    "cli/": "a command loads only what it uses",
    "workspace/": "the service container builds a service on first use",
    "browser/service.py": "the extra `browser`",
    "web/mcp_mount.py": "the extra `mcp`",
    "testing/": "parts that only tests need",
}
"""Where functions may import parts of Remit. In other places, a function may import only optional packages."""
PRIVATE_WORDS: Final = frozenset(
    {
        *(
            "desk",
            "door",
            "doors",
            "elsewhere",
            "house",
            "nobody",
            "papers",
            "retold",
            "road",
            "roads",
            "room",
            "rooms",
        ),
        *("somebody", "whoever", "whom"),
    }
)
"""Words with a meaning only in the past of this project. A name says what the thing is."""
TESTS_OF_NO_PACKAGE: Final = {
    "bench": "the programs in bench",
    "compat": "the output for users, compared with an earlier version",
    "conformance": "the promises, and the check of their markers",
    "crash": "kills, power cuts and full disks at every point",
    "guardrails": "the rules of the agent core",
    "repository": "documentation, structure, hygiene, import contracts",
    "support": "helpers of several folders, and their own tests",
}


class Finding(NamedTuple):
    """One place that breaks a rule, with the next step."""

    where: str
    what: str
    next_step: str

    def __str__(self) -> str:
        return f"structure: {self.where}: {self.what}. {self.next_step}"


class Tree:
    """The modules below a root. Each one is parsed once."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "src" / "remit"
        self.texts = {path.relative_to(self.folder): path.read_text() for path in sorted(self.folder.rglob("*.py"))}
        self.parsed = {path: ast.parse(text) for path, text in self.texts.items()}
        self.nodes = {path: list(ast.walk(tree)) for path, tree in self.parsed.items()}
        self.tests = sorted({path.relative_to(root / "tests").parts[0] for path in root.glob("tests/*/**/*.py")})

    def classes(self) -> Iterator[tuple[Path, ast.ClassDef]]:
        for path, nodes in self.nodes.items():
            yield from ((path, node) for node in nodes if isinstance(node, ast.ClassDef))


def check_root(tree: Tree) -> Iterator[Finding]:
    for path in tree.texts:
        if len(path.parts) == 1 and path.stem not in AT_THE_ROOT:
            yield Finding(
                str(path), "a module at the root of the package", "Move it into the package that it is part of."
            )


def check_names_in_ing(tree: Tree) -> Iterator[Finding]:
    found = [path for path in tree.texts if path.stem.endswith("ing")]
    for path in found:
        if path.stem not in NOUNS_IN_ING:
            yield Finding(str(path), "a module named after an activity", "Name it after the thing that it holds.")
    if len(found) > MOST_IN_ING:
        yield Finding(
            "src/remit", f"{len(found)} modules end in -ing, and the maximum is {MOST_IN_ING}", "Rename some."
        )


def check_exceptions(tree: Tree) -> Iterator[Finding]:
    """Check that exceptions end in Error. A class that derives from an exception is an exception too."""
    bases: dict[str, set[str]] = defaultdict(set)
    for _, node in tree.classes():
        bases[node.name] |= {ast.unparse(base).rpartition(".")[2] for base in node.bases}
    known = {"Exception", "BaseException", *(name for name in bases if name.endswith("Error"))}
    before = 0
    while len(known) > before:
        before = len(known)
        known |= {
            name for name, above in bases.items() if above & known or any(each.endswith("Error") for each in above)
        }
    for path, node in tree.classes():
        above = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        if _is_raised(above, known) and not node.name.endswith("Error"):
            yield Finding(f"{path}:{node.lineno}", f"the exception {node.name}", "Let its name end in Error.")


def _is_raised(above: set[str], known: set[str]) -> bool:
    return bool(above & known) or any(name.endswith("Error") for name in above)


def check_class_names(tree: Tree) -> Iterator[Finding]:
    where: dict[str, list[str]] = defaultdict(list)
    for path, node in tree.classes():
        where[node.name].append(f"{path}:{node.lineno}")
    twice = {name: places for name, places in where.items() if len(places) > 1}
    if len(twice) > MOST_TWICE:
        for name, places in sorted(twice.items()):
            what = (
                f"the class name {name} is defined {len(places)} times; such names: {len(twice)}, maximum {MOST_TWICE}"
            )
            yield Finding(", ".join(places), what, "Give each class another name.")


def check_imports(tree: Tree) -> Iterator[Finding]:
    for path, nodes in tree.nodes.items():
        if path.as_posix().startswith(tuple(LATE_IMPORTS)):
            continue
        inside = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        for node in {each for function in inside for each in ast.walk(function)}:
            names: list[str] = []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "remit"] if node.level == 0 else ["remit"]
            elif isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            if any(name.partition(".")[0] == "remit" for name in names):
                what = f"a function imports {', '.join(names)}"
                yield Finding(f"{path}:{getattr(node, 'lineno', 1)}", what, "Import it at the top, or break the cycle.")


def check_length(tree: Tree) -> Iterator[Finding]:
    for path, text in tree.texts.items():
        if (lines := text.count("\n")) > MOST_LINES:
            yield Finding(str(path), f"{lines} lines, and the maximum is {MOST_LINES}", "Split it into two ideas.")


_WORD_ENDS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def check_words(tree: Tree) -> Iterator[Finding]:
    """Check every name that the code gives: of packages and modules, in definitions, imports, `except` and `case`."""
    packages = {path.parent for path in tree.texts}
    names = [(str(path), path.name) for path in sorted(packages)]
    names += [(str(path), path.stem) for path in tree.texts]
    for path, nodes in tree.nodes.items():
        names += [(f"{path}:{line}", name) for node in nodes for line, name in _names_in(node)]
    for where, name in names:
        words = set(re.findall(r"[a-z]+", _WORD_ENDS.sub("_", name).lower()))
        if found := words & PRIVATE_WORDS:
            what = f"the name {name} has the private word {', '.join(sorted(found))}"
            yield Finding(where, what, "Use the usual word for the thing; see docs/glossary.md.")


def _names_in(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each name that a node defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield node.lineno, name
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield node.lineno, name
        case ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
            yield node.lineno, name
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            yield node.lineno, name


def check_tests(tree: Tree) -> Iterator[Finding]:
    packages = {path.parts[0] for path in tree.texts}
    for folder in tree.tests:
        if folder not in packages | TESTS_OF_NO_PACKAGE.keys():
            yield Finding(f"tests/{folder}", "no package has this name", "Move it to the tests of its package.")


CHECKS: Final = (
    *(
        check_root,
        check_names_in_ing,
        check_exceptions,
        check_class_names,
        check_imports,
        check_length,
        check_tests,
        check_words,
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Check the structure of src/remit.")
    parser.add_argument("--root", type=Path, default=HERE, help="the project's folder")
    tree = Tree(parser.parse_args(arguments).root)
    found = [finding for check in CHECKS for finding in check(tree)]
    for finding in found:
        sys.stderr.write(f"{finding}\n")
    lines = sum(text.count("\n") for text in tree.texts.values())
    sys.stdout.write(f"structure: {len(found)} findings in {len(tree.texts)} modules of {lines:,} lines\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
