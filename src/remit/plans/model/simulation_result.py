"""Results of a simulation in a sandboxed process. They are checked for form and bounds, masked, and made printable."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from remit.contracts.plans.change_log import DiffSummary
from remit.core.errors import EnvironmentFailureError, Reason, mask_for_review
from remit.core.text import printable
from remit.effects.plans.steps import State
from remit.masking import is_hidden, mask_diff, mask_shown, mask_sql
from remit.plans.model.hidden_lines import HiddenLines, hidden_lines

MAX_PREVIEW: Final = 500
MAX_DIFF: Final = 512 << 10
MAX_FINDINGS: Final = 50
MAX_REMARKS: Final = 20
MAX_LINES: Final = 10
"""How many masked lines a message names."""
_LONGEST: Final = 2_000
_HASH: Final = 71
_CREDENTIAL: Final = "credential"
_LONE_RETURN: Final = re.compile(r"\r(?!\n|\Z)")
"""A carriage return ends a comment for the engine, but is not visible."""
_LAYOUT: Final = {ord("\n"): None, ord("\t"): None}


class StepFinding(NamedTuple):
    """A finding in the new content of a step. It needs an approval of its own."""

    rule: str
    where: str
    what: str


class ShownDiff(NamedTuple):
    """A diff as shown to people."""

    text: str
    hidden: HiddenLines
    """The added and removed lines with masked content."""


class ShownSql(NamedTuple):
    """A statement as shown to people."""

    text: str
    is_cut: bool


class SimulatedStep(NamedTuple):
    """The simulated effect of one step."""

    number: int
    before: State | None
    after: State | None
    summary: str
    unchanged: bool
    diff: DiffSummary
    left_out: int
    text: str
    """The whole diff, if it was requested."""
    findings: tuple[StepFinding, ...]
    remarks: tuple[str, ...]
    """Information for a reader that needs no approval."""
    problem: Mapping[str, str] | None
    searched: bool = False
    """Whether the contents before and after were searched in full, and hold nothing that looks like a credential."""


def read_simulated_step(frame: Mapping[str, Any], text: str) -> SimulatedStep:
    """Parse a `seen` frame. Its number and its problem were checked on arrival."""
    try:
        return _read(frame, text)
    except (KeyError, TypeError, ValueError):
        raise protocol_error("its result for a step cannot be read") from None


def _read(frame: Mapping[str, Any], text: str) -> SimulatedStep:
    diff = frame["diff"] or {}
    added, removed = (_count(diff.get(name, 0)) for name in ("added", "removed"))
    preview = _whole_lines(show_text(_text(diff.get("preview", ""))))
    problem = frame.get("problem")
    shown = show_diff(text[: 2 * MAX_DIFF])
    found = read_findings(frame.get("findings") or [])
    return SimulatedStep(
        number=frame["number"],
        before=_state(frame["before"]),
        after=_state(frame["after"]),
        summary=mask_for_review(_text(frame["summary"])[:_LONGEST]),
        unchanged=_flag(frame["unchanged"]),
        diff=DiffSummary(lines_added=added, lines_removed=removed, preview=preview),
        left_out=_count(diff.get("left_out", 0)),
        text=shown.text,
        findings=(*found, *_hidden(shown.hidden, found)),
        remarks=read_remarks(frame.get("remarks") or []),
        problem=None if problem is None else error_of(problem),
        searched=_flag(frame.get("searched", False)),
    )


def _whole_lines(preview: str) -> str:
    """Return as many whole lines as fit, because half a line looks like a line of the file. A long first line is
    cut.
    """
    if len(preview) <= MAX_PREVIEW:
        return preview
    return preview[: preview.rfind("\n", 0, MAX_PREVIEW) + 1 or MAX_PREVIEW]


def read_findings(findings: Sequence[Any]) -> tuple[StepFinding, ...]:
    return tuple(_finding(finding) for finding in findings[:MAX_FINDINGS])


def read_remarks(remarks: Sequence[Any]) -> tuple[str, ...]:
    return tuple(mask_for_review(_text(remark))[:_LONGEST] for remark in remarks[:MAX_REMARKS])


def error_of(error: Mapping[str, str]) -> dict[str, str]:
    """Return the error of a sandboxed process, masked and printable. Its reason was checked on arrival."""
    details = {name: error.get(name, "") for name in ("what", "where", "next_step")}
    return EnvironmentFailureError(Reason(error["reason"]), **details).as_json()


def show_text(text: str) -> str:
    """Mask a text and make it printable line by line. Tabs and all line breaks are kept."""
    return _printable_lines(mask_shown(text))


def show_sql(text: str, most: int) -> ShownSql:
    """Mask a statement, then cut it if it is long. If something is hidden, a last line names the lines."""
    masked = _split_returns(mask_sql(text, most))
    lines = zip(_split_returns(text).split("\n"), masked.split("\n"), strict=False)  # only the shown part is masked
    hidden = [f"{at}" for at, (line, shown) in enumerate(lines, start=1) if not _is_shown(line, shown)]
    shown = _printable_lines(_LONE_RETURN.sub("\r\n", masked))
    is_cut = len(shown) > most or len(text) > most  # a mask may be much shorter than its value
    shown = shown[:most] + "..." if is_cut else shown
    return ShownSql(f"{shown}\n-- masked in this statement: {_list_lines(hidden)}" if hidden else shown, is_cut)


def _split_returns(text: str) -> str:
    """Break lines at carriage returns. The engine ends a line and a comment there, so the reader must see it."""
    return text.replace("\r\n", "\n").replace("\r", "\r\n") if "\r" in text else text


def _is_shown(line: str, shown: str) -> bool:
    """Whether a line is shown. Masking may have cut the last line."""
    return line.startswith(shown) or not is_hidden(line, shown)


def show_diff(text: str) -> ShownDiff:
    """Mask a diff so that its code stays readable, and return the lines that the reader cannot see."""
    masked = mask_diff(text)
    if masked == text:
        return ShownDiff(_printable_lines(text), HiddenLines())
    return ShownDiff(_printable_lines(masked), hidden_lines(text, masked))


def _hidden(lines: HiddenLines, found: Sequence[StepFinding]) -> Iterator[StepFinding]:
    """Yield one finding for all masked lines of a file that no finding names yet. A credential is named by its line."""
    named = {one.where for one in found if one.rule == _CREDENTIAL}
    added = [f"{line}" for line in lines.added if f"line {line}" not in named]
    if added:
        yield StepFinding(_CREDENTIAL, _list_lines(added), _describe_hidden(len(added), ""))
    if lines.removed:
        where = f"{_list_lines([f'{line}' for line in lines.removed])} as it is now"
        yield StepFinding(_CREDENTIAL, where, _describe_hidden(len(lines.removed), ", to be removed,"))


def _describe_hidden(count: int, which: str) -> str:
    subject = f"this line{which} holds" if count == 1 else f"these {count:,} lines{which} hold"
    return f"{subject} a masked value that is not shown here"


def _list_lines(lines: Sequence[str]) -> str:
    more = f" and {len(lines) - MAX_LINES:,} more" if len(lines) > MAX_LINES else ""
    return f"line{'' if len(lines) == 1 else 's'} {', '.join(lines[:MAX_LINES])}{more}"


def _printable_lines(masked: str) -> str:
    if masked.isascii() and masked.translate(_LAYOUT).isprintable():
        return masked
    lines = masked.split("\n")
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in lines)


def _state(values: Any) -> State | None:
    if values is None:
        return None
    digest, size, mode = values
    if not isinstance(digest, str) or len(digest) != _HASH or not digest.startswith("sha256:"):
        raise ValueError("no digest")
    return State(digest, _count(size), _count(mode) & 0o777)


def _finding(finding: Any) -> StepFinding:
    rule, where, what = (mask_for_review(_text(finding[name])) for name in ("rule", "where", "what"))
    return StepFinding(rule[:64], where[:500], what)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError("no count")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("no flag")
    return value


def protocol_error(what: str, where: Sequence[str] = ()) -> EnvironmentFailureError:
    return EnvironmentFailureError(
        Reason.EFFECT_FAILED,
        f"the process of the plan broke the protocol: {what}",
        where=", ".join(where),
        next_step="This is a bug in Remit. The results of this process were discarded.",
    )
