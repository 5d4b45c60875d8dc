"""Negation words. A text that is only similar to a phrase, and contains one of them, is not a match.

Most of these words say that the user does not want it: the request is refused. Others ask for something else, such as
`cancel` or `without`, and a simulation for it may be missing.

The lists are incomplete, and are not the protection: the user confirms every change. They save the user an unnecessary
question. A phrase that contains such a word itself matches texts with that word.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from remit.goals.binding.tokenizer import read

_WORDS: Final[dict[str, str]] = {
    "af": "nie moenie nooit nee",
    "ar": "لا لم لن ليس ما لست",
    "az": "deyil yox heç",
    "be": "не ня ніколі нельга",
    "bg": "не няма никога недей",
    "bn": "না নয় নেই",
    "bs": "ne nemoj nikad",
    "ca": "no mai",
    "cs": "ne není nikdy",
    "da": "ikke nej aldrig ingen",
    "de": "nicht nein kein keine keinen keinem nie niemals",
    "el": "μη μην δεν όχι ποτέ",
    "en": "not no never none dont don doesn didn won cannot cant neither nor",
    "es": "no nunca jamás",
    "et": "ei ära ärge mitte",
    "eu": "ez inoiz",
    "fa": "نه نکن نباید نیست",
    "fi": "ei älä en emme eivät",
    "fil": "huwag wag hindi",
    "fr": "ne pas non jamais",
    "gl": "non nunca",
    "gu": "ના નહીં",
    "he": "לא אל אין",
    "hi": "नहीं मत न",
    "hr": "ne nemoj nikad",
    "hu": "ne nem soha",
    "hy": "ոչ մի չի",
    "id": "tidak jangan bukan",
    "is": "ekki aldrei nei",
    "it": "non no mai",
    "ka": "არ არა ნუ",
    "kk": "емес жоқ ешқашан",
    "kn": "ಬೇಡ ಇಲ್ಲ",
    "ko": "안 못 말고 하지 아니",
    "lt": "ne niekada",
    "lv": "ne nav nekad",
    "mk": "не немој никогаш",
    "ml": "അരുത് വേണ്ട ഇല്ല",
    "mn": "бүү битгий үгүй",  # noqa: RUF001 - letters of Mongolian
    "mr": "नको नका नाही",
    "ms": "tidak jangan bukan",
    "nb": "ikke nei aldri",
    "ne": "होइन छैन",
    "nl": "niet nee geen nooit",
    "nn": "ikkje nei aldri",
    "pa": "ਨਾ ਨਹੀਂ",
    "pl": "nie nigdy",
    "pt": "não nao nunca jamais",
    "ro": "nu niciodată",
    "ru": "не нет никогда нельзя",
    "si": "එපා නැත",
    "sk": "nie nikdy",
    "sl": "ne nikoli",
    "sq": "mos nuk jo",
    "sr": "ne nemoj nikad не немој никад",
    "sv": "inte nej aldrig",
    "sw": "si hapana usifanye",
    "ta": "இல்லை வேண்டாம்",
    "te": "వద్దు కాదు లేదు",
    "tr": "hay\u0131r değil asla etme yapma",
    "uk": "не ні ніколи",
    "ur": "نہیں مت",
    "uz": "emas hech",
    "vi": "không đừng chưa chẳng",
}
_PARTS: Final[dict[str, str]] = {
    "ja": "ない ません なく 不 無 ずに",
    "km": "មិន កុំ",
    "lo": "ບໍ່ ຢ່າ",
    "my": "မ",
    "th": "ไม่ อย่า ห้าม",
    "yue": "唔 冇 咪 不 未 無",
    "zh": "不 没 沒 别 別 勿 莫 未 无 無",
}
_OTHER_WORDS: Final[dict[str, str]] = {
    "ar": "بدون إلغاء",
    "bg": "без",
    "cs": "bez",
    "da": "uden",
    "de": "ohne statt abbrechen",
    "el": "χωρίς",
    "en": "without instead stop cancel abort",
    "es": "sin cancela",
    "fa": "بدون",
    "fi": "ilman",
    "fr": "sans annule",
    "he": "בלי",
    "hi": "बिना",
    "hr": "bez",
    "hu": "nélkül",
    "hy": "առանց",
    "id": "tanpa",
    "it": "senza annulla",
    "ko": "없이",
    "lt": "be",
    "nb": "uten",
    "nl": "zonder",
    "pl": "bez",
    "pt": "sem",
    "ro": "fără",
    "ru": "без отмена",
    "sk": "bez",
    "sl": "brez",
    "sr": "bez без",
    "sv": "utan",
    "sw": "bila",
    "tr": "olmadan",
    "uk": "без",
    "ur": "بغیر",
}
_OTHER_PARTS: Final[dict[str, str]] = {"ja": "中止", "zh": "取消"}


def contains_negation(
    language: str, words: Sequence[str], utterance: str, phrase: Sequence[str], phrase_text: str
) -> bool:
    """Tell whether a text has a word of this language (`de`, not `de-AT`) that the phrase does not have.

    `words` and `phrase` are lists of words. `utterance` and `phrase_text` are folded texts, for scripts without spaces.
    """
    return refuses(language, words, utterance, phrase, phrase_text) or _has_more(
        (_folded(_OTHER_WORDS, language), _OTHER_PARTS.get(language, "")), words, utterance, phrase, phrase_text
    )


def refuses(language: str, words: Sequence[str], utterance: str, phrase: Sequence[str], phrase_text: str) -> bool:
    """Tell whether a text says that the user does not want what the phrase says. The arguments are as above."""
    listed = _folded(_WORDS, language), _PARTS.get(language, "")
    return _has_more(listed, words, utterance, phrase, phrase_text)


def negates(language: str, word: str) -> bool:
    return word in _folded(_WORDS, language) or word in _folded(_OTHER_WORDS, language)


def _has_more(
    listed: tuple[frozenset[str], str], words: Sequence[str], utterance: str, phrase: Sequence[str], phrase_text: str
) -> bool:
    whole, parts = listed
    if any(word in whole and word not in phrase for word in words):
        return True
    return any(utterance.count(part) > phrase_text.count(part) for part in parts.split())


def _folded(lists: dict[str, str], language: str) -> frozenset[str]:
    return _fold_words(lists.get(language, ""))


@lru_cache(maxsize=256)
def _fold_words(words: str) -> frozenset[str]:
    return frozenset(read(words).folded.split())
