"""A finding never raises, is masked, and says what to do."""

from remit.diagnostics.check import Check, Topic
from tests.diagnostics.sound_workspace import SECRET

TOPIC = Topic("thing", "work")


def test_a_check_that_blows_up_is_a_failed_check_with_its_secrets_masked() -> None:
    def look() -> Check:
        raise RuntimeError(f"password={SECRET}\n\x1b[31m")

    check = TOPIC.run(look)
    assert check.status == "fail"
    assert SECRET not in check.found
    assert "RuntimeError" in check.found
    assert check.found.isprintable()
    assert check.next_step


def test_an_error_that_cannot_even_be_printed_is_a_failed_check() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise ValueError

    def look() -> Check:
        raise Unprintable

    assert TOPIC.run(look).found == "the check itself failed: Unprintable: (no text)"


def test_a_finding_is_masked_bounded_and_on_one_line() -> None:
    check = TOPIC.warn(f"postgresql://u:{SECRET}@h/d\n" + "x" * 10_000, f"try password={SECRET}")
    assert SECRET not in check.found + check.next_step
    assert check.found.isprintable()
    assert len(check.found) < 3_000
