"""Lists which test proves which promise. Reads the requirement markers, writes docs/conformance.md, reports mistakes.

The markers are read from the syntax trees of the test files, so no test is imported or run. Limit: a marker must be on
a test, on its class, or in `pytestmark`, and must have literal ids. Any other marker is reported.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PROMISES: Final = Path("tests/conformance/promises.toml")
GAPS: Final = Path("tests/conformance/gaps.txt")
PAGE: Final = Path("docs/conformance.md")
REQUIREMENT_ID: Final = re.compile(r"[A-Z]{2}-[0-9]{2}")


@dataclass(frozen=True)
class Scan:
    """The markers: proofs by requirement id, and markers that cannot be read."""

    proofs: Mapping[str, Sequence[str]]
    unreadable: Sequence[str] = ()


@dataclass(frozen=True)
class Committed:
    """An earlier version of the list of gaps, with the ids that existed then."""

    commit: str
    gaps: frozenset[str]
    known: frozenset[str]


# --- the two lists --------------------------------------------------------------------------------------------------


def parse_promises(text: str) -> dict[str, str]:
    return {str(requirement): str(promise) for requirement, promise in tomllib.loads(text)["promises"].items()}


def read_promises(root: Path = ROOT) -> dict[str, str]:
    return parse_promises((root / PROMISES).read_text(encoding="utf-8"))


def read_missing_parts(root: Path = ROOT) -> dict[str, str]:
    """Return the promises that are proved in part, each with its missing part."""
    table = tomllib.loads((root / PROMISES).read_text(encoding="utf-8"))
    return {str(requirement): str(missing) for requirement, missing in table.get("partly", {}).items()}


def parse_gaps(text: str) -> list[str]:
    lines = (line.split("#", 1)[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


# --- reading markers ------------------------------------------------------------------------------------------------


@dataclass
class _FileScan:
    name: str
    proofs: dict[str, list[str]] = field(default_factory=dict)
    placed: set[int] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)

    def requirement_ids(self, expressions: Iterable[ast.expr]) -> list[str]:
        found: list[str] = []
        for call in _marker_calls(expressions):
            self.placed.add(id(call))
            for argument in call.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    found.append(argument.value)
                else:
                    self.problems.append(f"{self.name}:{call.lineno}: requirement ids must be literal strings")
        return found

    def visit_body(self, body: Sequence[ast.stmt], prefix: str, inherited: Sequence[str]) -> None:
        here = [*inherited, *self.requirement_ids(_pytestmark_values(body))]
        for node in body:
            if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                ids = [*here, *self.requirement_ids(node.decorator_list)]
                self.visit_body(node.body, f"{prefix}{node.name}::", ids)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
                ids = [*here, *self.requirement_ids(node.decorator_list)]
                if _never_has_to_pass(node.decorator_list):
                    continue
                for requirement in dict.fromkeys(ids):
                    self.proofs.setdefault(requirement, []).append(f"{self.name}::{prefix}{node.name}")


def scan_source(source: str, name: str) -> Scan:
    """Return the proofs in one test file. `name`: the path of the file in the page."""
    tree = ast.parse(source, filename=name)
    scan = _FileScan(name)
    scan.visit_body(tree.body, "", [])
    stray = [call for call in _marker_calls([tree]) if id(call) not in scan.placed]
    scan.problems.extend(f"{name}:{call.lineno}: a requirement marker that is not on a test" for call in stray)
    return Scan(scan.proofs, scan.problems)


def scan_tests(root: Path = ROOT) -> Scan:
    proofs: dict[str, list[str]] = {}
    unreadable: list[str] = []
    for path in sorted((root / "tests").rglob("test_*.py")):
        scan = scan_source(path.read_text(encoding="utf-8"), path.relative_to(root).as_posix())
        unreadable.extend(scan.unreadable)
        for requirement, tests in scan.proofs.items():
            proofs.setdefault(requirement, []).extend(tests)
    return Scan(proofs, unreadable)


def _marker_calls(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    for top in nodes:
        for node in ast.walk(top):
            if isinstance(node, ast.Call) and _is_marker(node.func, "req"):
                yield node


def _is_marker(node: ast.AST, name: str) -> bool:
    if not (isinstance(node, ast.Attribute) and node.attr == name):
        return False
    owner = node.value
    return (isinstance(owner, ast.Attribute) and owner.attr == "mark") or (
        isinstance(owner, ast.Name) and owner.id == "mark"
    )


def _pytestmark_values(body: Sequence[ast.stmt]) -> Iterator[ast.expr]:
    for node in body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in targets):
            value = getattr(node, "value", None)
            if isinstance(value, ast.expr):
                yield value


def _never_has_to_pass(decorators: Sequence[ast.expr]) -> bool:
    """Return whether the test is skipped or expected to fail. Such a test proves nothing."""
    heads = [decorator.func if isinstance(decorator, ast.Call) else decorator for decorator in decorators]
    return any(_is_marker(head, "skip") or _is_marker(head, "xfail") for head in heads)


# --- the page -------------------------------------------------------------------------------------------------------


def render_page(promises: Mapping[str, str], blocks: Mapping[str, str], scan: Scan, partly: Mapping[str, str]) -> str:
    proved = sum(1 for requirement in promises if scan.proofs.get(requirement))
    lines = [
        "# Conformance",
        "",
        "<!-- Generated by `make docs` from the requirement markers on the tests. Do not edit. -->",
        "",
        "What Remit promises, and the tests that prove it. A promise without a test is not kept yet.",
        f"Proved: {proved - len(partly)} of {len(promises)}; in part: {len(partly)}.",
    ]
    for block, title in blocks.items():
        lines += ["", f"## {block}: {title}", "", "| id | promise | proved by |", "|---|---|---|"]
        for requirement in sorted(promises):
            if requirement.startswith(f"{block}-"):
                tests = "<br>".join(f"`{test}`" for test in scan.proofs.get(requirement, ())) or "not yet"
                missing = f"in part; missing: {partly[requirement]}<br>" if requirement in partly else ""
                lines.append(f"| {requirement} | {promises[requirement]} | {missing}{tests} |")
    return "\n".join(lines) + "\n"


def current_page(root: Path = ROOT) -> str:
    table = tomllib.loads((root / PROMISES).read_text(encoding="utf-8"))
    return render_page(read_promises(root), table["blocks"], scan_tests(root), read_missing_parts(root))


# --- the rules ------------------------------------------------------------------------------------------------------


def decide_violations(
    promises: Mapping[str, str], gaps: Sequence[str], scan: Scan, history: Sequence[Committed]
) -> list[str]:
    """Return all mistakes in promises, tests and the list of allowed gaps. Empty if there are none."""
    found = list(scan.unreadable)
    found += [
        f"{requirement}: not an id of the form XX-00" for requirement in promises if not _well_formed(requirement)
    ]
    for requirement, tests in sorted(scan.proofs.items()):
        if requirement not in promises:
            found.append(f"{requirement}: unknown id, used by {', '.join(tests)}")
    found += [f"{requirement}: in {GAPS} but not a known id" for requirement in gaps if requirement not in promises]
    found += [f"{requirement}: twice in {GAPS}" for requirement in sorted(set(gaps)) if gaps.count(requirement) > 1]
    for requirement in promises:
        tested = bool(scan.proofs.get(requirement))
        if tested and requirement in gaps:
            found.append(f"{requirement}: has a test, so take it out of {GAPS}")
        if not tested and requirement not in gaps:
            found.append(f"{requirement}: no test proves it, and it is not an allowed gap")
    for earlier in history:
        grown = sorted((set(gaps) & earlier.known) - earlier.gaps)
        found += [
            f"{requirement}: {GAPS} may only shrink, and {earlier.commit} did not list it" for requirement in grown
        ]
    return list(dict.fromkeys(found))


def _well_formed(requirement: str) -> bool:
    return REQUIREMENT_ID.fullmatch(requirement) is not None


def committed_gaps(root: Path = ROOT) -> list[Committed]:
    """Return each committed version of the list of gaps in this clone. Empty outside a repository."""
    commits = _git(root, "log", "--format=%h", "--", GAPS.as_posix()) or ""
    versions: list[Committed] = []
    for commit in commits.split():
        gaps = _git(root, "show", f"{commit}:{GAPS.as_posix()}")
        promises = _git(root, "show", f"{commit}:{PROMISES.as_posix()}")
        if gaps is not None and promises is not None:
            known = frozenset(parse_promises(promises))
            versions.append(Committed(commit, frozenset(parse_gaps(gaps)), known))
    return versions


def _git(root: Path, *arguments: str) -> str | None:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def check(root: Path = ROOT) -> list[str]:
    """Return all violations of the tree at `root`. A generated page that is out of date is one of them."""
    gaps = parse_gaps((root / GAPS).read_text(encoding="utf-8"))
    scan = scan_tests(root)
    found = decide_violations(read_promises(root), gaps, scan, committed_gaps(root))
    for requirement in read_missing_parts(root):
        if not scan.proofs.get(requirement):
            found.append(f"{requirement}: listed as proved in part, but no test has its id")
    page = root / PAGE
    if not page.exists() or page.read_text(encoding="utf-8") != current_page(root):
        found.append(f"{PAGE}: out of date, run `make docs`")
    return found


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    if list(arguments) == ["--write"]:
        (root / PAGE).write_text(current_page(root), encoding="utf-8")
        return 0
    if list(arguments) != ["--check"]:
        sys.stderr.write("usage: conformance.py --check | --write\n")
        return 2
    found = check(root)
    gaps = parse_gaps((root / GAPS).read_text(encoding="utf-8"))
    for line in found:
        sys.stderr.write(f"conformance: {line}\n")
    sys.stdout.write(f"conformance: {len(found)} violations; {len(gaps)} allowed gaps: {' '.join(gaps)}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
