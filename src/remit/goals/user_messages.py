"""The texts that a user reads at the end of a cycle, made from the catalogue and the request. No agent writes them."""

from collections.abc import Mapping
from typing import Any, Final

from remit.contracts.goals.error_codes import USER_TEXT
from remit.contracts.goals.simulation import CompositeBinding, UndoBinding
from remit.core.text import printable
from remit.goals.catalogue.catalogue import CatalogueEntry
from remit.goals.composite.layout import StepTarget
from remit.goals.composite.order import ordered_steps
from remit.goals.confirmation.parser import Lexicon
from remit.masking import mask_shown

_CONSEQUENCE: Final = {
    "impactful": "It changes something; `{back}` can roll it back.",
    "side_effecting": "It has effects outside of this workspace; `{back}` can compensate for them.",
    "irreversible": "It cannot be undone; `{back}` can only compensate for it.",
}
_MAX_VALUES: Final = 7_500
"""The maximum number of characters of all fields together, so that they fit into one text."""
_MARK: Final = 50
"""The characters reserved for the note about the missing part of a value."""


def confirmation_prompt(
    entry: CatalogueEntry, fields: Mapping[str, Any], lexicon: Lexicon, language_tag: str, *, again: bool = False
) -> str:
    """Return the question for the user: exactly what will be done, and the words that are accepted as an answer."""
    simulation = entry.simulation
    most = _MAX_VALUES // max(len(fields), 1)
    values = ", ".join(f"{name} = {_render_value(value, most)}" for name, value in sorted(fields.items()))
    what = f"{simulation.title_in(language_tag)} ({simulation.id} {simulation.version})" + (
        f": {values}" if values else ""
    )
    if isinstance(simulation.binding, UndoBinding):
        consequence = "It rolls back what that goal did."
    else:
        consequence = _CONSEQUENCE.get(simulation.impact, "").format(back=simulation.rollback or "")
    words = lexicon.find_words(language_tag)
    if words is None:
        answer = f"Remit has no words for yes and no in `{language_tag}`. Ask again in another language."
    else:
        answer = f"Answer “{words.yes}” to go on, “{words.no}” to stop."
    begin = "That was neither a clear “yes” nor a clear “no”. " if again else ""
    return f"{begin}{what}. {consequence} {answer}"


def steps_note(target: StepTarget, language_tag: str) -> str:
    """Return the note before the question of a step: its place in the goal. Empty for a goal with a single step."""
    if target.whole is None:
        return ""
    steps = _step_names(target.whole)
    place = steps.index(target.step.name) + 1
    title = target.whole.simulation.title_in(language_tag)
    note = f"Step {place} of {len(steps)} of “{title}”. "
    if place < len(steps):
        note += "If a later step does not succeed, Remit rolls this step back without asking again. "
    return note


def undo_prompt(whole: CatalogueEntry, lexicon: Lexicon, language_tag: str, *, again: bool = False) -> str:
    """Return the question whether a whole goal with several steps is rolled back."""
    names = ", ".join(reversed(_step_names(whole)))
    title = whole.simulation.title_in(language_tag)
    words = lexicon.find_words(language_tag)
    begin = "That was neither a clear “yes” nor a clear “no”. " if again else ""
    answer = f"Answer “{words.yes}” to go on, “{words.no}” to stop." if words is not None else ""
    return f"{begin}Roll back all completed steps of “{title}”, the last one first: {names}. {answer}".rstrip()


def _step_names(whole: CatalogueEntry) -> list[str]:
    binding = whole.simulation.binding
    return [each.id for each in ordered_steps(binding)] if isinstance(binding, CompositeBinding) else []


def ending_text(ending: str, remaining: tuple[str, ...], step_text: str, *, is_stopped: bool = False) -> str:
    """Return the text about a whole goal with several steps that has ended.

    `step_text` is that of the step which stopped the goal, if `is_stopped`, or of its last step.
    """
    match ending:
        case "COMPLETED":
            return "All steps are done."
        case "ABORTED_ROLLED_BACK":
            return f"{step_text} The steps before it were rolled back."
        case "ROLLED_BACK" if is_stopped:
            return f"{step_text} The completed steps were rolled back later."
        case "ROLLED_BACK":
            return "All steps were done, and were rolled back later."
        case "ABORTED_PARTIAL":
            return f"{step_text} The effects of these steps remain: {', '.join(remaining)}."
        case _:
            return step_text


def running_text(done: int, count: int) -> str:
    """Return the text about a goal with several steps that has not ended and waits for no person."""
    return f"{done} of {count} steps are done. The goal has not ended."


def user_text(code: str) -> str:
    return USER_TEXT.get(code, "")


def _render_value(value: Any, most: int) -> str:
    if isinstance(value, dict):
        return " ".join(_render_value(each, most // len(value)) for _, each in sorted(value.items(), reverse=True))
    text = printable(mask_shown(str(value)))
    if len(text) <= most:
        return text
    length = most - _MARK
    return f"{text[:length]}... ({len(text) - length:,} more characters, not shown)"
