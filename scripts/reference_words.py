"""The page of the words that confirm a goal: each language that is shipped, what is a yes in it, and from where."""

from remit.contracts.goals.lexicon import LanguageEntry
from remit.goals.confirmation.parser import load_lexicon

_RULES = """
A goal whose effect matters is carried out only after an explicit yes. The answer is read in the language of the
request's tag, and in no other: `de-AT` is read as `de`, `zh-TW` as `zh-Hant`, `sr` as `sr-Cyrl`, and a tag that names a
script only by words in that script. In a language that is not listed here nobody can confirm.

- **A yes** is one of the words below and nothing else. Capitals do not matter (in Turkish and Azerbaijani by the rule
  of the dotted i), nor wide letters, nor how accents are encoded, nor spaces around it, nor one full stop or
  exclamation mark after it.
- **A no** is one of the words below. Nothing is done.
- **Everything else is ambiguous**, and nothing is done: words of mere consent or doubt (the last column), single
  initials, "yes?", "yes but", "not yes", a yes said twice or in quotation marks, emoji, a letter of another script that
  looks alike, and every character that cannot be seen.

Which words were in force is kept with each answer, as the version and the digest of the whole list:
""".strip()

_SOURCES = """
## Where the words come from

The two words that are shown to whoever is asked come from a public reference: the words for yes and no in the Unicode
CLDR (posix/messages) or in the GNU C Library (LC_MESSAGES). For most languages the translations of Django (yes, no,
maybe) say the same. The files in `src/remit/approval/lexicon` name the source of each such word. The other words are
general vocabulary, written down without a reference; no native speakers have reviewed them yet. Of weight are those in
the column of the yes: all others only say why nothing was done.
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
    # Words that run from right to left are set apart from each other, so that they keep their order in a browser.
    around = "<bdi>{}</bdi>" if entry.direction == "rtl" else "{}"
    columns = [", ".join(map(around.format, words)) for words in lists]
    return " | ".join([f"| {entry.english_name} ({entry.own_name})", tags, *columns]) + " |"
