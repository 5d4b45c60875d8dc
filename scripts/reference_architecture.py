"""The parts of docs/architecture.md that are generated from the sources: the eleven steps, and the picture of a plan.

The numbered comments in `execution/engine.py` give the engine's function of each step. The import contracts in
pyproject.toml give the layers. The table `STEPS` below has the code of a plan at each step. A test checks that each of
its names exists.
"""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = ROOT / "src" / "remit"
ENGINE: Final = "execution/engine.py"
OPERATION: Final = "plans/operation.py"
CONTRACTS: Final = {
    "remit": "Imports go one way",
    "plans": "Inside plans, imports go one way",
    "goals": "Inside goals, the core knows neither promotion nor what has its actions signed",
}
"""The names of the layered contracts that the page shows, by their subject."""


class Step(NamedTuple):
    """A step of the engine: its methods of `Operation`, and the places of a plan's code, as a file or file and name."""

    name: str
    what: str
    methods: tuple[str, ...]
    places: tuple[str, ...]
    other_places: tuple[str, ...] = ()
    """Further files that the step passes, for the picture."""


ENTRY_PLACES: Final = (
    "cli/plans/commands.py",
    "web/api/plans.py",
    "mcp_server/tools/plans.py",
    "services/plans/service.py",
    "workspace/workspace.py",
    "plans/service.py:Plans.apply",
)
"""The files that an approved plan passes from the interfaces to the engine."""

STEPS: Final = (
    Step(
        "parse",
        "Untrusted bytes become a closed model.",
        ("parse",),
        ("contracts/plans/envelope.py:Envelope",),
        ("parsing/json.py",),
    ),
    Step(
        "verify authority",
        "Signature, binding, expiry, revocation.",
        ("verify_authority",),
        ("authority/envelope.py:verify_envelope",),
        ("crypto/signing.py",),
    ),
    Step(
        "decide",
        "A pure policy decision with its reasons. Nothing is touched.",
        ("decide",),
        ("plans/policy/plan.py:decide_plan",),
    ),
    Step(
        "preview",
        "The exact effect, masked for people, with a digest of the unmasked request.",
        ("preview",),
        (
            "plans/preview/build.py:preview_plan",
            "plans/preparation/prepare.py:prepare_all",
            "effects/plans/simulate.py:Simulate",
        ),
        ("plans/runtime/runner.py", "plans/engines/duckdb.py", "sandbox/host.py", "masking/__init__.py"),
    ),
    Step(
        "consent",
        "An approval that is bound to that digest and can be used once.",
        ("consent",),
        ("plans/approval_checks.py:require_same_inputs", "plans/policy/required_approvals.py:uncovered"),
    ),
    Step(
        "checkpoint",
        "The data for an undo is on the disk.",
        ("checkpoint",),
        (
            "plans/apply/checkpoint.py:PlanCheckpoint",
            "plans/storage/backups.py:back_up_files",
            "plans/storage/manifest.py:write_rollback_files",
        ),
        ("fs/openat.py",),
    ),
    Step(
        "intent",
        "The ledger records the coming effect. The key of the request is claimed in the same transaction.",
        ("require_still_valid", "consume_authority"),
        ("execution/journal.py:Journal.claim",),
        ("ledger/writer.py", "store/claims.py"),
    ),
    Step(
        "effect",
        "The change itself, in a sandbox, under quotas.",
        ("effect", "recover_effect"),
        (
            "plans/apply/executor.py:PlanExecutor.execute",
            "plans/runtime/runner.py:PlanRunner.execute",
            "effects/plans/apply.py:ApplyEffect",
        ),
        ("plans/model/folders.py", "plans/engines/postgres.py", "sandbox/host.py", "fs/openat.py"),
    ),
    Step(
        "verify",
        "The files and databases are as the effect reported. Then the reports are written.",
        ("verify_effect", "succeed", "publish", "commit", "clear_up"),
        (
            "plans/apply/executor.py:PlanExecutor.verify",
            "plans/apply/verify_and_undo.py:require_as_planned",
            "plans/reports/publish.py:publish",
        ),
        ("plans/engines/row_rules.py", "plans/storage/run_folder.py", "fs/openat.py"),
    ),
    Step(
        "outcome",
        "Signed, and recorded in one transaction with the claim.",
        ("store_outcome", "show_outcome", "extra_entries"),
        ("plans/apply/outcome.py:build_outcome", "execution/journal.py:Journal.record_outcome"),
        ("authority/statuses.py", "crypto/signing.py", "ledger/writer.py", "store/claims.py"),
    ),
    Step(
        "report",
        "The caller gets the outcome.",
        (),
        ("plans/service.py:Plans.apply", "plans/reports/archive.py:archive"),
    ),
)


# --- reading the sources ---------------------------------------------------------------------------------------------


def engine_functions() -> dict[int, tuple[str, str]]:
    """Return the name of each numbered step in the engine, and the function that takes it."""
    source = (PACKAGE / ENGINE).read_text(encoding="utf-8")
    functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
    found: dict[int, tuple[str, str]] = {}
    for line, text in enumerate(source.splitlines(), start=1):
        if numbered := re.search(r"\S.*  # (\d+)\. ([a-z ]+)$", text):
            [inside] = [each.name for each in functions if each.lineno <= line <= (each.end_lineno or 0)]
            found.setdefault(int(numbered[1]), (numbered[2], inside))
    return found


def layers(about: str) -> list[list[str]]:
    """Return the layers of an import contract, from top to bottom, without the marks of pyproject.toml."""
    return [[name.strip(" ()") for name in re.split("[:|]", layer)] for layer in _written_layers(about)]


def mutually_independent(about: str) -> list[str]:
    """Return the packages that are in one layer but may not import each other."""
    return [name.strip(" ()") for layer in _written_layers(about) if "|" in layer for name in layer.split("|")]


def _written_layers(about: str) -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    [contract] = [each for each in contracts if each["name"] == CONTRACTS[about]]
    written: list[str] = contract["layers"]
    return written


def exists(place: str) -> bool:
    """Return whether this file exists below src/remit and has this class, function or method."""
    file, _, name = place.partition(":")
    path = PACKAGE / file
    if not path.is_file():
        return False
    body: Sequence[ast.AST] = ast.parse(path.read_text(encoding="utf-8")).body
    for part in name.split(".") if name else ():
        named = [each for each in body if isinstance(each, ast.ClassDef | ast.FunctionDef) and each.name == part]
        if not named:
            return False
        body = named[0].body
    return True


# --- the table of steps ----------------------------------------------------------------------------------------------


def step_rows() -> list[str]:
    engine = engine_functions()
    rows = ["| step | what it means | in `execution/engine.py` | for a plan |", "|---|---|---|---|"]
    for number, step in enumerate(STEPS, start=1):
        word, function = engine[number]
        if word != step.name:
            raise LookupError(
                f"step {number} is {word!r} in {ENGINE} and {step.name!r} in scripts/{Path(__file__).name}"
            )
        places = "; ".join(_render_place(place) for place in step.places)
        rows.append(f"| {number}. {step.name} | {step.what} | `{function}` | {places} |")
    return rows


def _render_place(place: str) -> str:
    file, _, name = place.partition(":")
    return f"`{file}`: `{name}`" if name else f"`{file}`"


# --- the picture -----------------------------------------------------------------------------------------------------

ROW: Final = 44
BOX: Final = 36
LETTER: Final = 7.3
"""The maximum width of a letter in the monospaced font of the picture."""
LEFT: Final = 24
RIGHT: Final = 440
TOP: Final = 100
STYLE: Final = """
    .ground { fill: #ffffff } .text { fill: #1f2328 } .quiet { fill: #59636e }
    .off { fill: #f6f8fa; stroke: #d1d9e0 } .on { fill: #ddf4ff; stroke: #0969da } .step { fill: #0550ae }
    .frame { fill: none; stroke: #d1d9e0 } .zoom { fill: none; stroke: #0969da; stroke-dasharray: 4 4 }
    text { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 12px }
    .words { font-family: system-ui, "DejaVu Sans", sans-serif; font-size: 13px }
    .title { font-size: 16px; font-weight: 600 } .step { font-size: 11px; font-weight: 600 }
    @media (prefers-color-scheme: dark) {
      .ground { fill: #0d1117 } .text { fill: #e6edf3 } .quiet { fill: #9198a1 }
      .off { fill: #151b23; stroke: #3d444d } .on { fill: #0c2d6b; stroke: #4493f8 } .step { fill: #a5d6ff }
      .frame { stroke: #3d444d } .zoom { stroke: #4493f8 }
    }
"""


class Box(NamedTuple):
    name: str
    x: float
    y: float
    width: float
    steps: str


def passed_packages() -> dict[str, list[int]]:
    """Return the steps at which a plan passes each package and each part of `plans`. Step 0 is the interface."""
    found: dict[str, set[int]] = {}
    for number, places in enumerate([ENTRY_PLACES, *((*step.places, *step.other_places) for step in STEPS)]):
        always = (ENGINE, *([OPERATION] if number and STEPS[number - 1].methods else [])) if number else ()
        for place in (*places, *always):
            if not exists(place):
                raise LookupError(f"there is no {place} below src/remit")
            parts = place.partition(":")[0].removesuffix(".py").split("/")
            found.setdefault(parts[0], set()).add(number)
            if parts[0] == "plans":
                found.setdefault(f"plans/{parts[1]}", set()).add(number)
    return {name: sorted(numbers) for name, numbers in found.items()}


def _spans(numbers: Sequence[int]) -> str:
    """Return a text such as `in 3-6 8`: the interface, and the steps, with consecutive steps as one span."""
    words = ["in"] if 0 in numbers else []
    steps = [number for number in numbers if number]
    while steps:
        last = 0
        while last + 1 < len(steps) and steps[last + 1] == steps[last] + 1:
            last += 1
        words.append(str(steps[0]) if last == 0 else f"{steps[0]}-{steps[last]}")
        steps = steps[last + 1 :]
    return " ".join(words)


def _boxes(
    rows: Sequence[Sequence[str]], x: float, prefix: str, steps_by_package: Mapping[str, list[int]]
) -> Iterator[Box]:
    for row, names in enumerate(rows):
        at = x
        for name in names:
            steps = _spans(steps_by_package.get(f"{prefix}{name}", []))
            width = max(len(name), len(steps)) * LETTER + 18
            yield Box(name, at, TOP + row * ROW, width, steps)
            at += width + 8


def _draw(box: Box) -> str:
    middle = box.x + box.width / 2
    name_at = box.y + (15 if box.steps else 22)
    lines = [
        (
            f'<rect class="{"on" if box.steps else "off"}" x="{box.x:.1f}" y="{box.y}" width="{box.width:.1f}"'
            f' height="{BOX}" rx="5"/>'
        ),
        (
            f'<text class="{"text" if box.steps else "quiet"}" x="{middle:.1f}" y="{name_at}" text-anchor="middle">'
            f"{escape(box.name)}</text>"
        ),
    ]
    if box.steps:
        lines.append(
            f'<text class="step" x="{middle:.1f}" y="{box.y + 29}" text-anchor="middle">{escape(box.steps)}</text>'
        )
    return "".join(lines)


def render_plan_picture() -> str:
    """Draw the packages in their layers. Those that an approved plan passes have the numbers of the steps."""
    steps_by_package = passed_packages()
    outer, inner = (
        list(_boxes(layers("remit"), LEFT, "", steps_by_package)),
        list(_boxes(layers("plans"), RIGHT, "plans/", steps_by_package)),
    )
    known = {box.name for box in outer} | {f"plans/{box.name}" for box in inner}
    if unknown := set(steps_by_package) - known:
        raise LookupError(f"not in the import contracts: {sorted(unknown)}")
    [plans] = [box for box in outer if box.name == "plans"]
    width = round(max(box.x + box.width for box in inner)) + 32
    height = TOP + len(layers("remit")) * ROW + 24
    inner_end = TOP + len(layers("plans")) * ROW + 6
    frame = (RIGHT - 16, TOP - 14, width - RIGHT, inner_end - TOP + 14)
    edge = plans.x + plans.width
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            ' role="img" aria-labelledby="title about">'
        ),
        '<title id="title">The packages of Remit that an approved plan passes</title>',
        (
            '<desc id="about">On the left, the packages in their layers, with the steps of the engine at which a plan'
            " passes each one. On the right, the same for the package plans.</desc>"
        ),
        "<!-- Generated by `make docs` from pyproject.toml and scripts/reference_architecture.py. Do not edit. -->",
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{width}" height="{height}"/>',
        f'<text class="words title text" x="{LEFT}" y="34">The packages that an approved plan passes</text>',
        _words(LEFT, 58, "Imports go down, or to a package in the same row. Only down:"),
        _words(LEFT, 76, f"{', '.join(mutually_independent('remit'))}."),
        _words(RIGHT, 58, "Inside the package plans", "text"),
        f'<rect class="frame" x="{frame[0]}" y="{frame[1]}" width="{frame[2]}" height="{frame[3]}" rx="8"/>',
        (
            f'<path class="zoom" d="M {edge:.1f} {plans.y} L {frame[0]} {frame[1]} M {edge:.1f} {plans.y + BOX}'
            f' L {frame[0]} {frame[1] + frame[3]}"/>'
        ),
        *map(_draw, (*outer, *inner)),
        *_legend(inner_end + 40),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _legend(y: int) -> Iterator[str]:
    yield _words(RIGHT - 16, y, "Blue: the plan passes here, at these steps of the engine.", "text")
    texts = ["in  interface", *(f"{number:>2}  {step.name}" for number, step in enumerate(STEPS, start=1))]
    half = (len(texts) + 1) // 2
    for place, text in enumerate(texts):
        x, row = RIGHT - 16 + 200 * (place // half), place % half
        yield (f'<text class="text" xml:space="preserve" x="{x}" y="{y + 28 + row * 22}">{escape(text)}</text>')


def _words(x: float, y: float, text: str, kind: str = "quiet") -> str:
    return f'<text class="words {kind}" x="{x}" y="{y}">{escape(text)}</text>'
