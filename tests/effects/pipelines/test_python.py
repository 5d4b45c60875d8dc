"""Functions of a project, run in turn on copies: what they leave, what they say, and how they can fail."""

import os

import pytest

from remit.core.errors import EnvironmentFailureError, Reason
from remit.effects.pipelines.errors import FILES, IMPORTS, NETWORK, REFUSED
from remit.sandbox.host import CancelledError
from tests.effects.pipelines.pipeline_sandbox import Bench

CLEAN = """
    import csv, logging, shutil, sqlite3, tempfile, threading
    from pathlib import Path

    from etl.names import tidy

    def run(job):
        with open("data/in.csv") as file:
            rows = [[tidy(cell) for cell in row] for row in csv.reader(file)]
        Path("data/out").mkdir()
        with open("data/out/clean.csv", "w") as file:
            csv.writer(file).writerows(rows)
        job.log(f"cleaned for {job.parameters['team']}")
        print("as printed")
        logging.getLogger("etl").info("as logged")
        for number in range(200):
            job.progress(number + 1, 200)
        return len(rows)

    def store(job):
        with sqlite3.connect("data/shop.db") as shop:
            shop.execute("CREATE TABLE orders (name, amount)")
            with open("data/out/clean.csv") as file:
                shop.executemany("INSERT INTO orders VALUES (?, ?)", csv.reader(file))
        return {"rows": 2}

    def tidy_up(job):
        shutil.copy2("data/out/clean.csv", "data/copy.csv")
        shutil.rmtree("data/out")
        with tempfile.TemporaryFile() as file:
            file.write(b"x")
        found = []
        workers = [threading.Thread(target=found.append, args=(n,)) for n in range(8)]
        for worker in workers: worker.start()
        for worker in workers: worker.join()
        assert sorted(found) == list(range(8))
"""


@pytest.fixture
def shop(bench: Bench) -> Bench:
    bench.write("etl/__init__.py", "")
    bench.write("etl/names.py", "def tidy(cell): return cell.strip().lower()\n")
    bench.write("etl/clean.py", CLEAN)
    bench.write("data/in.csv", "  Ada ,1\nBob, 2\n")
    return bench


@pytest.mark.req("PX-21")
def test_the_steps_run_in_their_order_and_leave_what_they_made(shop: Bench) -> None:
    ran = shop.run("etl.clean:run", "etl.clean:store", "etl.clean:tidy_up", parameters={"team": "ours"})
    assert ran.problem is None
    assert [(one.name, one.state, one.rows) for one in ran.steps] == [
        ("etl.clean:run", "done", 2),
        ("etl.clean:store", "done", 2),
        ("etl.clean:tidy_up", "done", None),
    ]
    assert (shop.scratch / "data" / "copy.csv").read_text() == "ada,1\nbob,2\n"
    assert (shop.scratch / "data" / "shop.db").stat().st_size > 0
    assert not (shop.scratch / "data" / "out").exists()
    assert list(ran.log) == ["cleaned for ...", "as printed", "INFO etl: as logged"]


@pytest.mark.req("PX-21")
def test_progress_is_reported_step_by_step(shop: Bench) -> None:
    shop.run("etl.clean:run", "etl.clean:store", parameters={"team": "ours"})
    assert shop.heard[0] == (1, 2, "etl.clean:run")
    assert shop.heard[-1] == (2, 2, "etl.clean:store")
    assert all(number == 1 and words.endswith(" %") for number, _, words in shop.heard[1:-1])
    assert shop.heard[1:-1]


def test_progress_that_is_invalid_or_without_end_does_no_harm(bench: Bench) -> None:
    ran = bench.probe("""
        for number in range(100_000):
            job.progress(number, 1)
        job.progress(-1, 0); job.progress(float("inf"), 2); job.progress(5, -5)
    """)
    assert ran.problem is None
    assert len(bench.heard) < 200


def test_what_is_made_is_the_owners_alone_and_can_be_cleared_away(bench: Bench) -> None:
    ran = bench.probe("""
        os.umask(0)
        open("made", "w").close()
        os.mkdir("folder", 0o777)
        os.chmod("folder", 0)
        try:
            os.mkdir("closed", 0)
        except PermissionError:
            return 1
    """)
    assert ran.steps[0].rows == 1
    assert (bench.scratch / "made").stat().st_mode & 0o777 == 0o600
    assert (bench.scratch / "folder").stat().st_mode & 0o777 == 0o700
    assert not (bench.scratch / "closed").exists()


def test_no_byte_code_is_left_beside_the_modules(shop: Bench) -> None:
    shop.run("etl.clean:run", parameters={"team": "ours"})
    assert not list(shop.scratch.rglob("__pycache__"))


def test_heavy_extension_modules_load_behind_the_walls(bench: Bench) -> None:
    """DuckDB, with threads of its own, and what stands on libraries of the system."""
    ran = bench.probe("""
        import bz2, hashlib, lzma, ssl, uuid, zlib, zoneinfo
        import duckdb
        assert zoneinfo.ZoneInfo("Europe/Vienna")
        with duckdb.connect("made.duckdb") as made:
            made.execute("CREATE TABLE t AS SELECT range AS a FROM range(100000)")
            made.execute("COPY t TO 'made.parquet'")
            return made.execute("SELECT count(*) FROM 'made.parquet'").fetchone()[0]
    """)
    assert ran.problem is None, ran.log
    assert ran.steps[0].rows == 100_000


def test_parameters_can_be_read_and_not_changed(bench: Bench) -> None:
    ran = bench.probe("job.parameters['day'] = 1", day="2026-01-01")
    assert ran.problem is not None
    assert "TypeError" in ran.problem.what


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.req("PX-22")
def test_a_step_that_raises_ends_the_pipeline_and_the_place_is_reported(shop: Bench) -> None:
    shop.write("etl/bad.py", "def helper():\n    raise ValueError('no 4711 for Ada')\n\ndef run(job):\n    helper()\n")
    ran = shop.run("etl.clean:run", "etl.bad:run", "etl.clean:store", parameters={"team": "ours"})
    assert [(one.name, one.state) for one in ran.steps] == [
        ("etl.clean:run", "done"),
        ("etl.bad:run", "failed"),
        ("etl.clean:store", "skipped"),
    ]
    assert isinstance(ran.problem, EnvironmentFailureError)
    assert ran.problem.reason is Reason.PIPELINE_FAILED
    assert ran.problem.what == "step etl.bad:run failed: ValueError: no 4711 for Ada"
    assert ran.problem.where == "etl/bad.py, line 2"
    assert "ValueError" in ran.log[-1]
    assert str(shop.scratch) not in "".join(ran.log)


@pytest.mark.parametrize(
    "words, told",
    [
        ("could not use 'Ada Lovelace'", "ValueError: could not use ..."),
        ('bad "Ada Lovelace" here', "ValueError: bad ... here"),
        ('no column "amount"', 'ValueError: no column "amount"'),
        ("it's 123456789", "ValueError: it's ..."),
        ("wrong for 2026-01-01", "ValueError: wrong for ..."),
        ("password=hunter2", "ValueError: password=********"),
        ("\x1b[31mred\nsecond line", r"ValueError: \x1b[31mred second line"),
        ("x" * 5_000, "ValueError: " + "x" * 488),
    ],
)
def test_the_message_of_a_failed_step_is_reported_without_values(bench: Bench, words: str, told: str) -> None:
    ran = bench.probe(f"raise ValueError({words!r})", day="2026-01-01")
    assert ran.steps[0].words == told


@pytest.mark.parametrize(
    "steps, words",
    [
        (("nothing.here:run",), "ModuleNotFoundError"),
        (("etl.clean:nothing",), "the module etl.clean has no function nothing"),
        (("etl.clean:csv",), "the module etl.clean has no function csv"),
        (("etl.broken:run",), "SyntaxError"),
    ],
)
def test_a_missing_step_is_reported(shop: Bench, steps: tuple[str, ...], words: str) -> None:
    shop.write("etl/broken.py", "x = 1\ndef run(job:\n")
    ran = shop.run(*steps)
    assert ran.problem is not None
    assert ran.problem.reason is Reason.PIPELINE_FAILED
    assert words in ran.problem.what
    assert ran.steps[0].state == "failed"
    if "broken" in steps[0]:
        assert ran.problem.where == "etl/broken.py, line 2"


@pytest.mark.req("PX-22")
@pytest.mark.parametrize(
    "body, what, hint",
    [
        ("import not_installed.part", "there is no module not_installed", IMPORTS),
        ("from csv import nothing", "there is no nothing in the module csv", IMPORTS),
        ("json.nothing()", "there is no nothing in the module json", ""),
        ("open('data/secret.csv')", "No such file or directory: ...", FILES),
        ("open(outside + '/secret.txt')", "Permission denied: ...", REFUSED),
        ("subprocess.run(['true'])", "", REFUSED),
        ("socket.socket()", "", NETWORK),
        ("socket.getaddrinfo('example.com', 80)", "", NETWORK),
        ("import urllib.request; urllib.request.urlopen('http://127.0.0.1:9/')", "", NETWORK),
        ("raise KeyError('Ada Lovelace')", "KeyError: ...", ""),
        ("raise ImportError('Ada Lovelace')", "ImportError: Ada Lovelace", IMPORTS),
        ("raise ModuleNotFoundError('x', name='Ada Lovelace')", "ModuleNotFoundError: x", IMPORTS),
    ],
)
def test_a_step_that_fails_for_something_that_pipelines_do_not_get_is_reported_with_a_hint(
    bench: Bench, body: str, what: str, hint: str
) -> None:
    ran = bench.probe(body)
    assert ran.problem is not None
    assert what in ran.problem.what
    assert ran.problem.next_step == (hint or "Fix the pipeline, and plan again. Nothing was changed.")


@pytest.mark.parametrize(
    "returned", ["'text'", "True", "-1", "1.5", "[1]", "{'rows': 'x'}", "{'rows': 1, 'b': 2}", "1 << 60"]
)
def test_a_step_returns_nothing_or_a_number_of_rows(bench: Bench, returned: str) -> None:
    ran = bench.probe(f"return {returned}")
    assert ran.problem is not None
    assert "the step returned a value of the type" in ran.problem.what
    assert "number of rows" in ran.problem.next_step


def test_what_a_program_leaves_to_its_end_is_done(bench: Bench) -> None:
    ran = bench.probe("""
        import atexit, duckdb
        made = duckdb.connect("made.duckdb")
        made.execute("CREATE TABLE t AS SELECT 1 AS a")
        atexit.register(made.close)
        atexit.register(print, "at the end")
    """)
    assert ran.problem is None
    assert ran.log == ("at the end",)
    assert not (bench.scratch / "made.duckdb.wal").exists()


def test_one_run_after_another_sees_nothing_of_the_first(bench: Bench) -> None:
    assert bench.probe("sys.modules['json'].mark = 1; os.environ['MARK'] = 'x'").problem is None
    ran = bench.probe("return int(hasattr(json, 'mark')) + int('MARK' in os.environ)")
    assert ran.steps[0].rows == 0


def test_what_is_cancelled_is_raised(bench: Bench) -> None:
    bench.write("slow.py", "import time\ndef run(job): time.sleep(60)\n")
    asked: list[int] = []

    def is_cancelled() -> bool:
        asked.append(1)
        return len(asked) > 3

    with pytest.raises(CancelledError):
        bench.run("slow:run", is_cancelled=is_cancelled)


def test_the_process_with_the_keys_runs_nothing_of_it(bench: Bench) -> None:
    ran = bench.probe("return os.getpid()")
    assert ran.steps[0].rows not in (None, os.getpid())
