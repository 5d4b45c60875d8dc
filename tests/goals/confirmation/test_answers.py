"""Answers whose meaning is known without the lexicon: what a reader of each language would say of them."""

import pytest

from remit.goals.confirmation.parser import load_lexicon

PARSE = load_lexicon().parse

KNOWN = [
    ("en", "Yes", "CONFIRMED"),
    ("en-GB", "I confirm.", "CONFIRMED"),
    ("en", "okay", "AMBIGUOUS"),
    ("en", "fine", "AMBIGUOUS"),
    ("en", "maybe later", "AMBIGUOUS"),
    ("en", "sure?", "AMBIGUOUS"),
    ("en", "I guess", "AMBIGUOUS"),
    ("en", "go ahead I guess", "AMBIGUOUS"),
    ("en", "hm", "AMBIGUOUS"),
    ("en", "\U0001f44d", "AMBIGUOUS"),
    ("en", "\u2705", "AMBIGUOUS"),
    ("en", "y", "AMBIGUOUS"),
    ("en", "yes but", "AMBIGUOUS"),
    ("en", "yes?", "AMBIGUOUS"),
    ("en", "not yes", "AMBIGUOUS"),
    ("en", "уes", "AMBIGUOUS"),  # with a Cyrillic letter
    ("en", "𝐲𝐞𝐬", "AMBIGUOUS"),
    ("en", "ⓨⓔⓢ", "AMBIGUOUS"),
    ("en", "yeſ", "AMBIGUOUS"),
    ("en", "ja", "AMBIGUOUS"),
    ("en", "No!", "REFUSED"),
    ("de-AT", "JA", "CONFIRMED"),
    ("de", "yes", "AMBIGUOUS"),
    ("de", "jein", "AMBIGUOUS"),
    ("de", "WEISS NICHT", "AMBIGUOUS"),
    ("de", "WEIẞ NICHT", "AMBIGUOUS"),
    ("de", "nein", "REFUSED"),
    ("es", "sí", "CONFIRMED"),
    ("es", "si", "AMBIGUOUS"),  # "if"
    ("it", "si", "AMBIGUOUS"),
    ("gl", "si", "CONFIRMED"),
    ("fr", "si", "AMBIGUOUS"),
    ("fr-CA", "Oui\u202f!", "CONFIRMED"),
    ("pt-BR", "SIM", "CONFIRMED"),
    ("pt", "não", "REFUSED"),
    ("cs", "no", "AMBIGUOUS"),  # "well", or "yeah"
    ("cs", "ne", "REFUSED"),
    ("pl", "no", "AMBIGUOUS"),
    ("sq", "jo", "REFUSED"),
    ("sv", "jo", "AMBIGUOUS"),
    ("el", "ναι", "CONFIRMED"),
    ("el", "ΝΑΙ", "CONFIRMED"),
    ("el", "ΟΧΙ", "REFUSED"),  # capitals go without accents
    ("el", "ναι;", "AMBIGUOUS"),  # the question mark of Greek
    ("el", "ναι\u037e", "AMBIGUOUS"),
    ("el", "nai", "AMBIGUOUS"),
    ("el", "ne", "AMBIGUOUS"),
    ("el", "ΊΣΩΣ", "AMBIGUOUS"),
    ("sr-Latn", "ne", "REFUSED"),
    ("sr-Latn", "da", "CONFIRMED"),
    ("sr", "да", "CONFIRMED"),
    ("sr", "da", "AMBIGUOUS"),
    ("bg", "да", "CONFIRMED"),
    ("bg", "da", "AMBIGUOUS"),
    ("ru", "\u1c81а", "AMBIGUOUS"),  # a variant of the letter de that folds to it, younger than Unicode 3.2
    ("ru", "да нет", "AMBIGUOUS"),
    ("ru", "не подтверждаю", "REFUSED"),
    ("uk", "так", "CONFIRMED"),
    ("tr", "EVET", "CONFIRMED"),
    ("tr", "ONAYLIYORUM", "CONFIRMED"),
    ("tr", "onayliyorum", "AMBIGUOUS"),
    ("tr", "HAYIR", "REFUSED"),
    ("tr", "İPTAL", "REFUSED"),
    ("tr", "IPTAL", "AMBIGUOUS"),
    ("az", "BƏLİ", "CONFIRMED"),
    ("az", "BƏLI\u0307", "CONFIRMED"),  # the dot on its own
    ("az", "BƏLI", "AMBIGUOUS"),
    ("lt", "TAIP", "CONFIRMED"),
    ("lt", "TAİP", "AMBIGUOUS"),
    ("ar", "نعم", "CONFIRMED"),
    ("ar-EG", "ﻧﻌﻢ", "CONFIRMED"),  # the same letters, in the shapes that an old system writes
    ("ar", "نعم؟", "AMBIGUOUS"),
    ("ar", "إن شاء الله", "AMBIGUOUS"),
    ("ar", "\u202bنعم", "AMBIGUOUS"),
    ("ar", "لا", "REFUSED"),
    ("he", "כן", "CONFIRMED"),
    ("iw", "כן", "CONFIRMED"),
    ("he", "לא", "REFUSED"),
    ("fa", "تأیید می\u200cکنم", "CONFIRMED"),
    ("fa", "تأیید \u200cمیکنم", "AMBIGUOUS"),
    ("fa", "بله\u200c", "AMBIGUOUS"),
    ("fa", "باشه", "AMBIGUOUS"),
    ("ur", "جی ہاں", "CONFIRMED"),
    ("hi", "हाँ।", "CONFIRMED"),
    ("hi", "ठीक है", "AMBIGUOUS"),
    ("bn", "হ্যাঁ", "CONFIRMED"),
    ("ta", "ஆம்", "CONFIRMED"),
    ("ta", "சரி", "AMBIGUOUS"),
    ("th", "ใช่", "CONFIRMED"),
    ("th", "ทำเลย", "AMBIGUOUS"),
    ("th", "ไม่ใช่", "REFUSED"),
    ("vi", "ĐỒNG Ý", "CONFIRMED"),
    ("vi", "vâng", "AMBIGUOUS"),
    ("zh", "确认。", "CONFIRMED"),
    ("zh", "確認", "AMBIGUOUS"),
    ("zh-TW", "確認", "CONFIRMED"),
    ("zh-TW", "确认", "AMBIGUOUS"),
    ("zh-Hant-HK", "好", "AMBIGUOUS"),
    ("zh", "不是", "REFUSED"),
    ("ja", "はい", "CONFIRMED"),
    ("ja", "はい。", "CONFIRMED"),
    ("ja", "はいはい", "AMBIGUOUS"),
    ("ja", "結構です", "AMBIGUOUS"),
    ("ja", "いいえ", "REFUSED"),
    ("ko", "예", "CONFIRMED"),
    ("ko", "\u110b\u1168", "CONFIRMED"),  # by its jamo
    ("ko", "확인", "AMBIGUOUS"),  # what the OK button says
    ("hy", "ԱՅՈ", "CONFIRMED"),
    ("hy", "այո՞", "AMBIGUOUS"),
    ("ka", "კი", "CONFIRMED"),
    ("ka", "ᲙᲘ", "CONFIRMED"),
    ("am", "አዎ።", "CONFIRMED"),
    ("am", "እሺ", "AMBIGUOUS"),
    ("no", "ja", "CONFIRMED"),
    ("nn-NO", "ja", "CONFIRMED"),
]

# Said here once more, so that no edit of the words can make one of them a yes unnoticed.
NEVER_A_YES = {
    "en": "sure|yeah|yep|alright|all right|go ahead|do it|go on|of course|perhaps|sounds good|why not|whatever|right|k",
    "de": "klar|gut|na gut|doch|ja ja|naja|vielleicht|meinetwegen|von mir aus|mach mal|passt|jo",
    "fr": "d'accord|d’accord|ouais|bien|c'est bon|vas-y|peut-être|pourquoi pas|bien sûr",
    "es": "vale|bueno|claro|de acuerdo|dale|está bien|quizás|tal vez|supongo",
    "pt": "tá|tá bom|pode ser|talvez|claro|pois|pois sim",
    "it": "va bene|certo|forse|magari|boh|d'accordo",
    "nl": "goed|prima|oké|misschien|ja hoor|nou ja",
    "pl": "dobra|dobrze|okej|może|jasne|chyba tak",
    "ru": "ладно|хорошо|ок|окей|ага|угу|может быть|наверное|конечно|давай",
    "el": "εντάξει|ίσως|οκ|μάλιστα|καλά",
    "tr": "tamam|olur|peki|belki|tabii",
    "ar": "حسنا|تمام|طيب|ماشي|موافق|ربما|ممكن|أكيد",
    "he": "בסדר|אוקיי|סבבה|אולי|בטח|אישור",
    "fa": "باشه|آره|شاید|اوکی",
    "hi": "अच्छा|शायद|जी|ओके",
    "th": "ตกลง|ได้|ครับ|ค่ะ|อาจจะ|โอเค",
    "vi": "được|dạ|ừ|có lẽ|có thể",
    "zh": "好|好的|好吧|行|可以|嗯|对|也许|没问题|随便",
    "zh-TW": "好|好的|行|可以|嗯|對|也許|沒問題",
    "ja": "うん|ええ|いいです|大丈夫|了解|わかりました|たぶん|あとで|どうぞ",
    "ko": "응|그래|좋아요|괜찮아요|알겠습니다|아마|나중에",
    "id": "oke|baik|boleh|mungkin|terserah",
    "sw": "sawa|labda|haya",
}


@pytest.mark.req("AC-05")
def test_words_of_mere_consent_or_doubt_are_never_a_yes() -> None:
    for tag, words in NEVER_A_YES.items():
        for word in ("ok", "okay", "OK", "o.k.", *words.split("|")):
            assert (tag, word, PARSE(tag, word).verdict) == (tag, word, "AMBIGUOUS")


@pytest.mark.req("AC-05")
def test_known_answers_are_read_as_their_speakers_mean_them() -> None:
    for tag, answer, verdict in KNOWN:
        assert (tag, answer, PARSE(tag, answer).verdict) == (tag, answer, verdict)


def test_what_an_answer_was_read_as_never_quotes_it() -> None:
    assert PARSE("en", "my password is hunter2").why == "the answer is not a listed word of the language"
    assert PARSE("en", "\u202ehunter2").why.startswith("the answer has a character that is not of writing")
    assert PARSE("tlh", "hunter2").why.startswith("the lexicon has no words for this language; it has af, am, ar,")


def test_an_answer_has_at_most_as_many_characters_as_its_contract_allows() -> None:
    assert PARSE("en", " " * 197 + "yes").verdict == "CONFIRMED"
    assert PARSE("en", " " * 198 + "yes").why == "the answer is too long"
    for empty in ("", " ", "\n", ".", " ! ", "\u3000"):
        assert PARSE("en", empty).why == "the answer is empty"
