"""The page of the words that confirm a goal: each shipped language, its words, and their sources."""

from remit.contracts.goals.lexicon import LanguageEntry
from remit.goals.confirmation.parser import load_lexicon

_RULES = """
A goal that changes something runs only after an explicit confirmation. Remit reads the answer only in the language of
the request's tag: `de-AT` is read as `de`, `zh-TW` as `zh-Hant`, and `sr` as `sr-Cyrl`. If the tag names a script, only
words in that script are valid. In a language that is not in this list, a goal cannot be confirmed.

- **A confirmation** is one of the words in the column "yes", and nothing else. Some differences do not matter: capitals
  (in Turkish and Azerbaijani by the rule of the dotted i), wide letters, the encoding of accents, spaces around the
  word, and one full stop or exclamation mark after it.
- **A refusal** is one of the words in the column "no". Nothing is done.
- **Every other answer is ambiguous**, and nothing is done. Examples are words of weak consent or doubt (the last
  column), single initials, "yes?", "yes but", "not yes", a repeated "yes" or one in quotation marks, emoji, a letter of
  another script that looks the same, and every invisible character.

Each answer is stored with the version and the digest of the whole list that was used:
""".strip()

_SOURCES = """
## Where the words come from

The two words that the question shows to the user come from a public reference: the words for yes and no in the Unicode
CLDR (posix/messages) or in the GNU C Library (LC_MESSAGES). For most languages, the translations of Django (yes, no,
maybe) agree. The files in `src/remit/goals/confirmation/lexicon` name the source of each such word. The other words are
general vocabulary without a reference. No native speakers have reviewed them yet. Only the words in the column "yes"
have an effect. All others only explain why nothing was done.
""".strip()


def render_confirmation_words(note: str) -> str:
    lexicon = load_lexicon()
    languages = lexicon.languages()
    lines = ["# Words that confirm", "", note, "", *_RULES.splitlines(), "", f"`{lexicon.ref}`", ""]
    lines += [
        f"{len(languages)} languages, in {len({entry.script for entry in languages.values()})} scripts (ISO 15924).",
        "",
    ]
    lines += ["| language | read for | yes | no | ambiguous |", "|---|---|---|---|---|"]
    lines += [_row(key, entry) for key, entry in languages.items()]
    return "\n".join([*lines, "", *_SOURCES.splitlines()]) + "\n"


def _row(key: str, entry: LanguageEntry) -> str:
    tags = ", ".join(f"`{tag}`" for tag in dict.fromkeys((key, *entry.tags)))
    lists = (entry.affirmative, entry.refusal, entry.ambiguous)
    # Words from right to left are isolated from each other, so that they keep their order in a browser.
    around = "<bdi>{}</bdi>" if entry.direction == "rtl" else "{}"
    columns = [", ".join(map(around.format, words)) for words in lists]
    return " | ".join([f"| {entry.english_name} ({entry.own_name})", tags, *columns]) + " |"
