"""Negation words. A text that is only similar to a phrase, and contains one of them, is not a match.

The lists are incomplete, and are not the protection: the user confirms every change. They save the user an unnecessary
question. A phrase that contains such a word itself matches texts with that word.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from remit.goals.binding.tokenizer import read

_WORDS: Final[dict[str, str]] = {
    "ar": "لا لم لن ليس ما لست بدون إلغاء",
    "bg": "не няма без никога",
    "bn": "না নয় নেই",
    "cs": "ne není nikdy bez",
    "da": "ikke nej aldrig ingen uden",
    "de": "nicht nein kein keine keinen keinem nie niemals ohne statt abbrechen",
    "el": "μη μην δεν όχι ποτέ χωρίς",
    "en": "not no never none dont don doesn didn won cannot cant without instead stop cancel abort neither nor",
    "es": "no nunca jamás sin cancela",
    "fa": "نه نکن نباید نیست بدون",
    "fi": "ei älä en emme eivät ilman",
    "fr": "ne pas non jamais sans annule",
    "he": "לא אל בלי אין",
    "hi": "नहीं मत न बिना",
    "hr": "ne nemoj nikad bez",
    "hu": "ne nem soha nélkül",
    "hy": "ոչ մի չի առանց",
    "id": "tidak jangan bukan tanpa",
    "it": "non no mai senza annulla",
    "ka": "არ არა ნუ",
    "ko": "안 못 말고 하지 아니 없이",
    "lt": "ne niekada be",
    "nb": "ikke nei aldri uten",
    "nl": "niet nee geen nooit zonder",
    "pl": "nie nigdy bez",
    "pt": "não nao nunca jamais sem",
    "ro": "nu niciodată fără",
    "ru": "не нет никогда без нельзя отмена",
    "sk": "nie nikdy bez",
    "sl": "ne nikoli brez",
    "sr": "ne nemoj nikad bez не немој никад без",
    "sv": "inte nej aldrig utan",
    "sw": "si hapana usifanye bila",
    "ta": "இல்லை வேண்டாம்",
    "tr": "hay\u0131r değil asla etme yapma olmadan",
    "uk": "не ні ніколи без",
    "ur": "نہیں مت بغیر",
    "vi": "không đừng chưa chẳng",
}
_PARTS: Final[dict[str, str]] = {
    "ja": "ない ません なく 不 無 ずに 中止",
    "km": "មិន កុំ",
    "lo": "ບໍ່ ຢ່າ",
    "my": "မ",
    "th": "ไม่ อย่า ห้าม",
    "zh": "不 没 沒 别 別 勿 莫 未 无 無 取消",
}


def contains_negation(
    language: str, words: Sequence[str], utterance: str, phrase: Sequence[str], phrase_text: str
) -> bool:
    """Tell whether a text has a negation of this language (`de`, not `de-AT`) that the phrase does not have.

    `words` and `phrase` are lists of words. `utterance` and `phrase_text` are folded texts, for scripts without spaces.
    """
    negations = _negations(language)
    if any(word in negations and word not in phrase for word in words):
        return True
    return any(utterance.count(part) > phrase_text.count(part) for part in _PARTS.get(language, "").split())


def negates(language: str, word: str) -> bool:
    return word in _negations(language)


@lru_cache(maxsize=64)
def _negations(language: str) -> frozenset[str]:
    return frozenset(read(_WORDS.get(language, "")).folded.split())
