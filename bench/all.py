"""Run every benchmark to its end and print one table of their figures.

A program that misses a target, or fails, does not keep the others from running. The exit code is 1 if any did.
`make bench` calls this; `bench/README.md` says what the programs measure.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from figures import Figure

HERE: Final = Path(__file__).resolve().parent
PROGRAMS: Final = (
    "ledger.py",
    "task.py",
    "plan.py",
    "preview.py",
    "sql.py",
    "browser.py",
    "agent.py",
    "over_http.py",
    "sse.py",
    f"history.py {HERE.parent}",
)
FIELDS: Final = ("name", "value", "unit", "most", "least")


class Row(NamedTuple):
    """One line of the table."""

    program: str
    figure: str
    value: str
    target: str
    verdict: str


def run(program: str) -> list[Row]:
    """The rows of one program, which prints its figures as JSON. Its progress goes to standard error."""
    name, *arguments = program.split()
    path = HERE / name
    title = path.name
    sys.stderr.write(f"== {program}\n")
    sys.stderr.flush()
    command = [sys.executable, str(path), *arguments, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    try:
        rows = rows_of(title, json.loads(done.stdout))
    except (ValueError, TypeError, KeyError, AttributeError):
        return [Row(title, "", "", "", f"FAILED, exit code {done.returncode}")]
    # 1 is how a program says that a target is missed; any other code, or 1 without a miss, is a failure of its own.
    if done.returncode not in {0, 1} or (done.returncode == 1 and not any(is_bad(row) for row in rows)):
        rows.append(Row(title, "", "", "", f"FAILED, exit code {done.returncode}"))
    return rows


def rows_of(title: str, output: Any) -> list[Row]:
    """From a list of figures, or from the counts that `history.py` prints."""
    if isinstance(output, dict):
        output = counts(output)
    rows = []
    for tree in output:
        figure = Figure(**{field: tree[field] for field in FIELDS})
        target, verdict = "", ""
        if figure.most is not None or figure.least is not None:
            target = f"at most {figure.most:g}" if figure.most is not None else f"at least {figure.least:g}"
            verdict = "MISSED" if figure.missed else "held"
        rows.append(Row(title, figure.name, f"{figure.value:,.2f} {figure.unit}".rstrip(), target, verdict))
    return rows


def counts(output: dict[str, Any]) -> list[dict[str, Any]]:
    """The counts of `history.py` as figures: no file may differ."""
    plain = {"unit": "", "most": None, "least": None}
    return [
        {**plain, "name": "commits applied, rolled back and applied again", "value": output["applied"]},
        {**plain, "name": "files that differed", "value": len(output["wrong"]), "most": 0},
    ]


def is_bad(row: Row) -> bool:
    return row.verdict not in {"", "held"}


def render(rows: list[Row]) -> str:
    """Print one table with a line for each figure, and then the missed targets."""
    head = Row("program", "figure", "value", "target", "result")
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = []
    for row in (head, Row(*("-" * width for width in widths)), *rows):
        cells = [
            text.rjust(width) if at == 2 else text.ljust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    judged = [row for row in rows if row.verdict]
    bad = [row for row in judged if is_bad(row)]
    ended = f"{len(bad)} of {len(judged)} results are missed or failed" if bad else f"all {len(judged)} targets held"
    return "\n".join([*lines, "", ended])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", help="programs with their arguments; else all of this folder")
    given = parser.parse_args()
    rows = [row for program in given.programs or PROGRAMS for row in run(program)]
    print(render(rows))
    return 1 if any(is_bad(row) for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
