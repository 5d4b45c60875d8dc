"""The texts that a user reads at the end of a cycle, made from the catalogue and the request. No agent writes them."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from remit.contracts.goals.simulation import CompositeBinding, UndoBinding
from remit.core.text import printable
from remit.goals.catalogue.catalogue import CatalogueEntry
from remit.goals.composite.layout import StepTarget
from remit.goals.composite.order import ordered_steps
from remit.goals.confirmation.parser import Lexicon
from remit.goals.messages.catalogue import FINDER_REASONS, UserText, choose_language, render_text, user_text
from remit.masking import mask_shown

_CONSEQUENCE: Final = {
    "impactful": "PROMPT_IMPACTFUL",
    "side_effecting": "PROMPT_SIDE_EFFECTING",
    "irreversible": "PROMPT_IRREVERSIBLE",
}
_MAX_VALUES: Final = 7_500
"""The maximum number of characters of all fields together, so that they fit into one text."""
_MARK: Final = 50
"""The characters reserved for the note about the missing part of a value."""
_PARTS: Final = ("PROMPT_UNDO", "PROMPT_ANSWER", "PROMPT_AGAIN", "PROMPT_CUT", *_CONSEQUENCE.values())
"""The texts of a question. All of them are in one language."""
_STEP_PARTS: Final = ("STEP_PLACE", "STEP_ROLLED_BACK_UNASKED", *_PARTS)
_UNDO_PARTS: Final = ("PROMPT_UNDO_STEPS", "PROMPT_ANSWER", "PROMPT_AGAIN")
_ENDINGS: Final = {
    "COMPLETED": "ENDED_COMPLETED",
    "ABORTED_ROLLED_BACK": "ENDED_STEPS_ROLLED_BACK",
    "ROLLED_BACK": "ENDED_ALL_ROLLED_BACK",
    "ABORTED_PARTIAL": "ENDED_STEPS_REMAIN",
}
"""The texts about the end of a whole goal with several steps."""


def confirmation_prompt(
    entry: CatalogueEntry, fields: Mapping[str, Any], lexicon: Lexicon, language_tag: str, *, again: bool = False
) -> UserText:
    """Return the question for the user: exactly what will be done, and the words that are accepted as an answer.

    The title is in the language that the catalogue has for it.
    """
    language = choose_language(language_tag, _PARTS)
    return UserText(_prompt(entry, fields, lexicon, language_tag, language, again=again), language)


def step_prompt(
    target: StepTarget, whole: CatalogueEntry, lexicon: Lexicon, language_tag: str, *, again: bool = False
) -> UserText:
    """Return the question for one step of a goal with several steps, after its place in the goal."""
    language = choose_language(language_tag, _STEP_PARTS)
    steps = _step_names(whole)
    place = steps.index(target.step.name) + 1
    title = whole.simulation.title_in(language_tag)
    note = render_text("STEP_PLACE", language, place=place, count=len(steps), title=title)
    if place < len(steps):
        note += f" {render_text('STEP_ROLLED_BACK_UNASKED', language)}"
    prompt = _prompt(target.entry, target.fields, lexicon, language_tag, language, again=again)
    return UserText(f"{note} {prompt}", language)


def undo_prompt(whole: CatalogueEntry, lexicon: Lexicon, language_tag: str, *, again: bool = False) -> UserText:
    """Return the question whether a whole goal with several steps is rolled back."""
    language = choose_language(language_tag, _UNDO_PARTS)
    names, title = ", ".join(reversed(_step_names(whole))), whole.simulation.title_in(language_tag)
    what = render_text("PROMPT_UNDO_STEPS", language, title=title, names=names)
    begin, answer = _answers(lexicon, language_tag, language, again=again)
    return UserText(f"{begin}{what} {answer}", language)


def ending_text(ending: str, remaining: Collection[str], step: UserText, language_tag: str) -> UserText:
    """Return the text about a whole goal with several steps that has ended. `step` is the text of its last step."""
    name = _ENDINGS.get(ending)
    if name is None:
        return step
    values = {"names": ", ".join(remaining)} if name == "ENDED_STEPS_REMAIN" else {}
    told = user_text(name, language_tag, **values)
    if name in {"ENDED_COMPLETED", "ENDED_ALL_ROLLED_BACK"}:
        return told
    return UserText(f"{step.text} {told.text}", told.language if told.language == step.language else None)


def finder_refusal(reason_code: str, language_tag: str) -> UserText:
    """Return the Finder's reason in words. For a code of another Finder, a neutral sentence with the code."""
    if reason_code in FINDER_REASONS:
        return user_text(reason_code, language_tag)
    return user_text("FINDER_REASON_UNKNOWN", language_tag, code=reason_code)


def _prompt(
    entry: CatalogueEntry,
    fields: Mapping[str, Any],
    lexicon: Lexicon,
    language_tag: str,
    language: str,
    *,
    again: bool,
) -> str:
    simulation = entry.simulation
    most = _MAX_VALUES // max(len(fields), 1)
    values = ", ".join(f"{name} = {_render_value(value, most, language)}" for name, value in sorted(fields.items()))
    what = f"{simulation.title_in(language_tag)} ({simulation.id} {simulation.version})" + (
        f": {values}" if values else ""
    )
    if isinstance(simulation.binding, UndoBinding):
        consequence = render_text("PROMPT_UNDO", language)
    elif simulation.impact in _CONSEQUENCE:
        consequence = render_text(_CONSEQUENCE[simulation.impact], language, back=simulation.rollback or "")
    else:
        consequence = ""
    begin, answer = _answers(lexicon, language_tag, language, again=again)
    return f"{begin}{what}. {consequence} {answer}"


def _answers(lexicon: Lexicon, language_tag: str, language: str, *, again: bool) -> tuple[str, str]:
    """Return the beginning of a question that is asked again, and the words that are accepted as an answer."""
    words = lexicon.find_words(language_tag)
    if words is None:
        return "", render_text("PROMPT_NO_WORDS", language, tag=language_tag)
    accepted = {"yes": words.yes, "no": words.no}
    begin = render_text("PROMPT_AGAIN", language, **accepted) + " " if again else ""
    return begin, render_text("PROMPT_ANSWER", language, **accepted)


def _step_names(whole: CatalogueEntry) -> list[str]:
    binding = whole.simulation.binding
    return [each.id for each in ordered_steps(binding)] if isinstance(binding, CompositeBinding) else []


def running_text(done: int, count: int) -> UserText:
    """Return the text about a goal with several steps that is under way. It is for programs, so it is in English."""
    return UserText(f"{done} of {count} steps are done. The goal has not ended.", "en")


def _render_value(value: Any, most: int, language: str) -> str:
    if isinstance(value, dict):
        ordered = sorted(value.items(), reverse=True)
        return " ".join(_render_value(each, most // len(value), language) for _, each in ordered)
    text = printable(mask_shown(str(value)))
    if len(text) <= most:
        return text
    length = most - _MARK
    return f"{text[:length]}... {render_text('PROMPT_CUT', language, count=len(text) - length)}"
