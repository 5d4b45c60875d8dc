"""Callers who all want something at once, and remember what they were told, until the server is gone."""

import json
import random
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from remit.services.services import Services
from tests.crash.web.crash_workspace import AFTER, BEFORE, Place
from tests.crash.web.killed_server import Gone, Server
from tests.crash.web.scenario import ANN
from tests.support.task_workspace import file_task
from tests.support.web_server import ALL_CAPS, Who, agent_of

CALLERS = 16
# What a state may have become since it was told; recovery goes forward or back, and nothing else happens on its own.
LATER = {
    "PENDING": {"PENDING", "APPROVED"},
    "APPROVED": {"APPROVED", "APPLIED", "FAILED", "ROLLED_BACK"},
    "APPLIED": {"APPLIED", "UNDONE"},
    "UNDONE": {"UNDONE"},
}


@dataclass
class Caller:
    """One agent, with files and tasks of its own. `told` is what it was answered last about each proposal."""

    place: Place
    name: str
    who: Who
    files: dict[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, bool] = field(default_factory=dict)

    def work(self, server: Server, leases: Iterable[dict[str, object]], problems: list[str]) -> None:
        try:
            for body in leases:
                self.round(server, body)
        except Gone:
            return
        except Exception as problem:  # noqa: BLE001 - told by the test
            problems.append(f"{self.name}: {problem!r}")

    def round(self, server: Server, task: dict[str, object]) -> None:
        name = self.place.fresh(self.name) + ".txt"
        plan = self.place.plan(name)
        self.files[str(plan["plan_id"])] = name
        made = server.post("/v1/plans", {"plan": plan}, self.who)
        assert made.status == 201, made.body
        at = str(made.headers["location"])
        self.told[at] = "PENDING"
        self.told[at] = self.place.decide(server, at)
        self.told[at] = server.post(f"{at}/apply", {}, self.who).tree["state"]
        manifest = task["manifest"]
        assert isinstance(manifest, dict)
        self.tasks[manifest["task_id"]] = False
        done = server.post("/v1/tasks", task, self.who)
        assert done.tree["result"]["status"] == "SUCCESS", done.body
        self.tasks[manifest["task_id"]] = True
        if random.random() < 0.5:  # noqa: S311 - which of them does not matter
            assert server.post(f"{at}/undo", {}, self.who).status == 200
            self.told[at] = "UNDONE"

    def check(self, server: Server) -> list[str]:
        """What is not as it was told, or not as the files are."""
        problems = []
        for at, told in self.told.items():
            now = server.tree(at, self.who)
            if now["state"] not in LATER[told]:
                problems.append(f"{at} was {told} and is {now['state']}")
        for view in server.tree("/v1/plans?limit=200", self.who)["items"]:
            found = self.place.read(self.files[view["plan_id"]])
            if found != (AFTER if view["state"] == "APPLIED" else BEFORE):
                problems.append(f"{view['plan_id']} is {view['state']}, and its file {found!r}")
        for task_id, was_told in self.tasks.items():
            answer = server.get(f"/v1/tasks/{task_id}", self.who, wait=30)
            moved = (self.place.base / f"{task_id}.to").exists()
            is_done = answer.status == 200 and answer.tree["result"]["status"] == "SUCCESS"
            if (moved, moved) != (is_done, not (self.place.base / f"{task_id}.from").exists()) or was_told > is_done:
                problems.append(f"{task_id}: {answer.status}, moved: {moved}, told: {was_told}")
        return problems


def callers(place: Place, count: int = CALLERS) -> list[Caller]:
    names = [place.fresh("caller") for _ in range(count)]
    return [Caller(place, name, agent_of(place.workspace, name, *ALL_CAPS)) for name in names]


def leases(place: Place, desk: Services, count: int) -> list[dict[str, object]]:
    """Tasks that move a file, with what lets whoever has it run them."""
    made = []
    for _ in range(count):
        name = place.fresh("load")
        source, target = place.base / f"{name}.from", place.base / f"{name}.to"
        source.write_text(name)
        asked = file_task(name, "FILE_MOVE", source, target)
        lease = desk.tasks.lease(ANN, asked, timedelta(minutes=30)).tree()
        made.append({"manifest": json.loads(asked), "lease": lease})
    return made


def all_at_work(server: Server, everybody: list[Caller], work: list[dict[str, object]]) -> list[threading.Thread]:
    """A share of the tasks for each. What goes wrong before the server is gone is in `server.problems`."""
    share = len(work) // len(everybody)
    threads = [
        threading.Thread(target=one.work, args=(server, work[number * share : (number + 1) * share], server.problems))
        for number, one in enumerate(everybody)
    ]
    for thread in threads:
        thread.start()
    return threads
