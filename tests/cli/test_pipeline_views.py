"""Pipelines as people read them: steps, what was said, what can be taken back; before, after, and when they fail."""

from typing import Any

import click
import pytest

from remit.cli.plans.render_pipeline import FEW_STEPS, LOG_LINES, STEPS, render_pipeline, render_ran
from remit.contracts.plans.pipeline_report import PipelineTold, ToldStep
from remit.plans.reports.truncate import truncate_pipelines, without_log

DONE = ToldStep(name="etl.load:run", state="done", rows=1_200, milliseconds=1_500)
FAILED = ToldStep(name="etl.report:run", state="failed", milliseconds=20, words="ValueError")
SKIPPED = ToldStep(name="etl.tell:run", state="skipped")


def told(*steps: ToldStep, reversible: bool = False, **more: object) -> PipelineTold:
    tree = {"action_id": "p1", "pipeline": "nightly", "kind": "python", "reversible": reversible, **more}
    return PipelineTold.model_validate({**tree, "steps": steps})


def lines(*steps: ToldStep, whole: bool = False, **more: object) -> list[str]:
    return list(map(click.unstyle, render_pipeline(told(*steps, **more), whole=whole)))  # type: ignore[arg-type]


@pytest.mark.req("PX-21")
def test_each_step_stands_with_how_it_ended_its_rows_and_its_time() -> None:
    assert lines(DONE, changes=("out/a.csv", "out/b.csv"), log=("one", "two")) == [
        "p1: pipeline nightly (python), on copies",
        "    step          ended   rows   took",
        "    etl.load:run  done   1,200  1.5 s",
        "  said      one",
        "            two",
        "  leaves    out/a.csv, out/b.csv",
        "  undo      only files: a rollback restores the files above, but no other effect of the code",
    ]
    assert lines(DONE, reversible=True)[-1] == "  undo      yes: everything that it changes is backed up as it is now"


@pytest.mark.req("PX-21")
def test_the_description_of_a_pipeline_is_shown_as_configured() -> None:
    assert lines(DONE, description="Loads the day.\x07")[1] == r"  about     Loads the day.\x07"
    assert b"description" not in told(DONE).canonical()
    assert without_log(told(DONE, FAILED, description="Loads the day.")).description == ""


@pytest.mark.req("PX-21")
def test_dbt_steps_show_what_kind_of_object_was_made() -> None:
    steps = (
        ToldStep(name="model.shop.big", state="done", rows=3, milliseconds=20, words="table"),
        ToldStep(name="model.shop.all", state="done", milliseconds=20, words="view"),
        ToldStep(name="test.shop.one", state="failed", milliseconds=20, words="Got 1 result"),
    )
    assert lines(*steps, kind="dbt")[1:] == [
        "    step            ended   made   rows   took",
        "    model.shop.big  done    table     3  20 ms",
        "    model.shop.all  done    view         20 ms",
        "    test.shop.one   failed               20 ms",
    ]


@pytest.mark.req("PX-21")
def test_a_failed_pipeline_shows_nothing_about_undo() -> None:
    shown = lines(DONE, FAILED, SKIPPED, log=("what it said",))
    assert [line.split()[:2] for line in shown[2:5]] == [
        ["etl.load:run", "done"],
        ["etl.report:run", "failed"],
        ["etl.tell:run", "skipped"],
    ]
    assert shown[-1] == "  said      what it said"


def test_a_long_log_and_many_steps_are_cut_and_shown_whole_on_request() -> None:
    log = tuple(f"line {number}" for number in range(LOG_LINES + 3))
    steps = [DONE] * (STEPS + 2)
    shown = "\n".join(lines(*steps, log=log))
    assert "... 3 lines before: --full" in shown
    assert "line 2\n" not in shown
    assert "... 2 more steps" in shown
    assert "line 0" in "\n".join(lines(*steps, log=log, whole=True))


def test_no_name_and_no_log_line_can_add_a_line_of_its_own() -> None:
    bad = ToldStep(name="x\x1b[31m\nSUCCESS", state="done")
    shown = lines(bad, log=("a\rb\x07",))
    assert len(shown) == len(lines(DONE, log=("ab",)))
    assert all(line.isprintable() for line in shown)


@pytest.mark.req("PX-21")
def test_after_a_run_the_steps_are_listed_and_after_a_failure_the_log_too() -> None:
    assert list(map(click.unstyle, render_ran([told(DONE, log=("a row",))], whole=False))) == [
        "  ran       p1: pipeline nightly: 1 step",
        "    step          ended   rows   took",
        "    etl.load:run  done   1,200  1.5 s",
    ]
    assert len(list(render_ran([told(*[DONE] * 30)], whole=False))) == 2 + FEW_STEPS + 1
    assert len(list(render_ran([told(*[DONE] * 30)], whole=True))) == 2 + 30
    shown = list(render_ran([told(DONE, FAILED, log=("why",))], whole=False))
    assert shown[0] == "  ran       p1: pipeline nightly: 1 of 2 steps"
    assert shown[-1] == "  said      why"


def test_steps_on_a_server_have_no_empty_columns_and_the_rows_of_all_together() -> None:
    on_server: dict[str, Any] = {"kind": "sql", "server": "shop at db.example:5432/shop as remit", "reversible": True}
    step = ToldStep(name="sql/rows.sql", state="done")
    assert lines(step, **on_server) == [
        "p1: pipeline nightly (sql), in a transaction that was rolled back",
        "    step          ended",
        "    sql/rows.sql  done",
    ]
    ran = render_ran([told(step, **on_server)], {"p1": 3}, whole=False)
    assert click.unstyle(next(ran)) == "  ran       p1: pipeline nightly: 1 step, 3 rows changed"


@pytest.mark.req("PX-36")
def test_what_a_pipeline_said_is_kept_only_where_it_failed() -> None:
    assert without_log(told(DONE, log=("a row",))).log == ()
    assert without_log(told(DONE, FAILED, log=("a row",))).log == ("a row",)


def test_a_report_has_room_for_every_pipeline_and_no_more_than_that() -> None:
    long = [ToldStep(name=f"step {number}", state="done", words="w" * 900) for number in range(200)]
    many = [told(*long, log=("l" * 900,) * 200) for _ in range(20)]
    kept = truncate_pipelines(many, room := 200_000)
    assert len(kept) == 20
    assert sum(len(one.canonical()) for one in kept) <= room
    assert all(len(one.steps) + one.left_out == 200 for one in kept)
    assert truncate_pipelines([many[0]], 10_000_000) == (many[0],)
