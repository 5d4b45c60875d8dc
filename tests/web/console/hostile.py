"""A workspace in which every text that a caller can choose tries to become markup or to mislead the reader."""

from typing import Any, NamedTuple

from remit.identity.callers import PersonCaller
from remit.identity.person import Person
from tests.plans.sql.shop import make_database
from tests.web.console.console_workspace import ADMIN, APP, TENANT, USER, Stage, created, replaced

MARKUP = "\"'><img src=x onerror=window.__fired=1><script>window.__fired=2</script>"
ATTRIBUTE = '" onmouseover="window.__fired=3" autofocus onfocus="window.__fired=4'
SCHEME = "javascript:window.__fired=5"
BIDI = "\u202egnp.exe\u2066\u200b\x1b[2J"
SAVED = {"save_results_to": "out/rows.csv"}
MIA = PersonCaller(Person("link:mia"), "operator", USER, TENANT)


class Filled(NamedTuple):
    """The address of every page, by name."""

    paths: dict[str, str]


def fill(stage: Stage) -> Filled:
    name = "docs/" + MARKUP.replace("/", "") + ".md"
    stage.write("src/app.py")
    stage.agent = stage.token(f"bot{ATTRIBUTE}")
    waiting = stage.propose(
        f"plan{MARKUP}",
        replaced(f"one{ATTRIBUTE}", "src/app.py", "LIMIT = 10", f"LIMIT = '{MARKUP}'  # {BIDI}"),
        created(f"two{MARKUP}", name, f"{MARKUP}\n{ATTRIBUTE}\n{BIDI}\n", f"one{ATTRIBUTE}"),
        created("three", "scripts/run.sh", "#!/bin/sh\n"),
        note=f"{MARKUP}{BIDI}",
    )
    done = _applied(stage)
    held = stage.hold(
        f"https://shop.example/{MARKUP}", f"bot{MARKUP}"[:200], **{MARKUP: MARKUP + BIDI, SCHEME: ATTRIBUTE}
    )
    closed = stage.hold("https://shop.example/closed", "closed-bot")
    stage.workspace.approvals.decide(closed.approval_id, approved=False, who=Person("os:x"), reason=MARKUP + BIDI)
    make_database(stage.root / "data/shop.duckdb")
    stage.agent = stage.token("data-bot")
    query = {"type": "sql_execute", "connection": "shop", "query": "SELECT id, state FROM orders", **SAVED}
    reading = stage.propose("rows", {"action_id": "s", "action_type": "SQL_EXECUTE", "operation": query})
    stage.desk.plans.finish_previews(60)
    stage.agent = stage.token("weak-bot", "plan.propose")
    unseen = stage.propose("not-computed", {"action_id": "s", "action_type": "SQL_EXECUTE", "operation": query})
    goal = stage.desk.goals.ask(MIA, f"copy the form as invoice-7 {MARKUP}", "en", None, None, 10)
    stage.desk.goals.ask(MIA, "copy the form as invoice-8", "en", "../../logout", None, 10)
    steps = stage.desk.goals.ask(MIA, "prepare a-one and a-two and a-three", "en", None, None, 10)
    stage.desk.goals.answer(MIA, steps.correlation_id, "yes", step=steps.waiting.step if steps.waiting else None)
    question = {"kind": "confirmation", "tenant": TENANT, "id": "../../logout"}
    return Filled(
        {
            "inbox": "/inbox",
            "plan": f"/inbox/plan/{waiting.proposal_id}",
            "SQL plan": f"/inbox/plan/{reading.proposal_id}",
            "not computed": f"/inbox/plan/{unseen.proposal_id}",
            "request": f"/inbox/request/{held.approval_id}",
            "closed request": f"/inbox/request/{closed.approval_id}",
            "confirmation": "/inbox/question?" + "&".join(f"{key}={value}" for key, value in question.items()),
            "runs": "/runs",
            "run": f"/runs/{done}",
            "goals": "/goals",
            "goal": f"/goals/one?tenant={TENANT}&id={goal.correlation_id}",
            "goal with steps": f"/goals/one?tenant={TENANT}&id={steps.correlation_id}",
            "ledger": "/ledger",
            "search": "/ledger?text=%22%3E%3Cimg%20src%3Dx%20onerror%3Dwindow.__fired%3D6%3E&kind=proposal.",
            "bad search": "/ledger?since=%22%3E%3Cimg%20src%3Dx%20onerror%3Dwindow.__fired%3D6%3E",
            "entry": "/ledger/entry?tenant=default&seq=12",
            "trace": f"/ledger/trace?tenant={TENANT}&correlation={goal.correlation_id}",
            "verify": "/ledger/verify",
            "catalogue": f"/catalogue?tenant={TENANT}",
            "empty catalogue": "/catalogue?tenant=globex",
            "simulation": f"/catalogue/simulation?tenant={TENANT}&id=ping",
            "tokens": "/tokens",
            "people": "/people",
            "levels": "/levels",
            "login": "/login",
            "404": "/%22%3E%3Cimg%20src%3Dx%20onerror%3Dwindow.__fired%3D6%3E",
            "404 of ours": "/inbox/question?kind=plan&id=%22%3E%3Cimg%20src%3Dx%20onerror%3Dwindow.__fired%3D6%3E",
            "said": "/inbox?said=%22%3E%3Cimg%20src%3Dx%20onerror%3Dwindow.__fired%3D6%3E",
        }
    )


def _applied(stage: Stage) -> str:
    stage.write("src/other.py", APP)
    made: Any = stage.approved(
        f"done{MARKUP}"[:200], replaced(f"a{MARKUP}", "src/other.py", "LIMIT = 10", f"LIMIT = '{MARKUP}'")
    )
    stage.desk.plans.apply(ADMIN, made.proposal_id, 20)
    return str(made.proposal_id)
