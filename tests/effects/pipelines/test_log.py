"""What a program says: caught wherever it goes, bounded, masked, and there however the program ends."""

import textwrap

import pytest

from remit.plans.engines.pipeline_log import LONGEST_LINE, MAX_LOG_LINES
from tests.effects.pipelines.pipeline_sandbox import Bench

KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join(["MIIEpAIBAAKCAQEA7" + "x" * 47] * 20)
KEY += "\n-----END RSA PRIVATE KEY-----\n"


def test_all_output_of_a_program_is_captured_in_the_log(bench: Bench) -> None:
    ran = bench.probe("""
        import logging, warnings
        print("printed"); print("to stderr", file=sys.stderr)
        sys.stdout.buffer.write(b"as bytes\\n"); sys.stdout.flush()
        os.write(1, b"past Python\\n"); os.write(2, b"past Python, stderr\\n")
        logging.warning("logged"); logging.debug("not logged")
        job.log("as a job"); job.log(7)
        print("not ended", end="")
    """)
    assert list(ran.log) == [
        *("printed", "to stderr", "as bytes", "past Python", "past Python, stderr"),
        *("WARNING root: logged", "as a job", "7", "not ended"),
    ]


@pytest.mark.parametrize("ending", ["os._exit(1)", "ctypes.string_at(1)", "raise ValueError", "time.sleep(60)"])
def test_it_is_there_however_the_program_ends(bench: Bench, ending: str) -> None:
    ran = bench.probe(f"print('the last words')\n{ending}", seconds=2.0)
    assert ran.problem is not None
    assert ran.log[0] == "the last words"


def test_a_huge_log_keeps_its_end_and_costs_no_more_than_its_writing(bench: Bench) -> None:
    ran = bench.probe("""
        for number in range(60_000):
            print(number, "x" * 1000)
        print("the end")
    """)
    assert ran.problem is None
    assert len(ran.log) <= MAX_LOG_LINES
    assert ran.log[-1] == "the end"
    assert ran.log[-2].startswith("59999 xxx")
    assert max(map(len, ran.log)) == LONGEST_LINE


def test_one_endless_line_is_cut(bench: Bench) -> None:
    ran = bench.probe("print('y' * (20 << 20)); print('after')")
    assert ran.problem is None
    assert ran.log[-1] == "after"
    assert all(len(line) <= LONGEST_LINE for line in ran.log)


def test_many_lines_leave_the_last_ones(bench: Bench) -> None:
    ran = bench.probe("for number in range(1000): print('line', number)")
    assert list(ran.log) == [f"line {number}" for number in range(800, 1000)]


def test_secrets_are_masked_and_escapes_spelled_out(bench: Bench) -> None:
    bench.write("key.pem", KEY)
    ran = bench.probe(r"""
        print("password=hunter2 and card 4111 1111 1111 1111")
        print("sk_live_" + "a1b2c3d4e5f6g7h8i9j0k1l2")
        print("\x1b[2J\x1b]0;title\x07 \u202e hidden \x00")
        print("tab\there\rover")
        sys.stdout.buffer.write(b"\xff\xfe broken\n")
        print(open("key.pem").read())
    """)
    text = "\n".join(ran.log)
    assert "hunter2" not in text
    assert "4111 1111 1111 1111" not in text
    assert "a1b2c3d4e5f6g7h8" not in text
    assert "MIIEpAIBAAKCAQEA7" not in text
    assert text.replace("\n", "").isprintable()
    assert r"\x1b[2J" in text
    assert r"\u202e" in text


def test_a_key_whose_beginning_was_cut_off_is_not_shown(bench: Bench) -> None:
    """The end of the file that is looked at begins within the key, which does not look like one then."""
    bench.write("key.pem", KEY)
    for size in range(190, 194):
        ran = bench.probe(f"""
            print("z" * 70_000)
            print(open("key.pem").read())
            for number in range(190): print("f" * {size * 1024 // 190 - 1})
        """)
        assert "MIIEpAIBAAKCAQEA7" not in "\n".join(ran.log)
        assert len(ran.log) > 100


def test_parameters_are_not_told(bench: Bench) -> None:
    ran = bench.probe(
        textwrap.dedent("""
            print(dict(job.parameters)["region"], job.parameters["nested"], job.parameters["number"])
            raise ValueError("for " + job.parameters["region"])
        """),
        region="somewhere",
        nested={"list": ["elsewhere"]},
        number=98765,
    )
    text = "\n".join((*ran.log, str(ran.problem), ran.steps[0].words))
    for value in ("somewhere", "elsewhere", "98765"):
        assert value not in text
