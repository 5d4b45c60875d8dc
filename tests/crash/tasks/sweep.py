"""One sweep, in a process of its own: a scenario on a layout, stopped in one way. Prints its findings as JSON.

python -m tests.crash.tasks.sweep SCENARIO WAY LAYOUT [--step N] [--second N] [--place PLACE] [--sabotage NAME]
    [--scenarios MODULE]
"""

import argparse
import importlib
import json
import signal
import sys
import time

from tests.crash.tasks.injections import WAYS, Choice, choice_for, points_in, power, unharmed
from tests.crash.tasks.laboratory import LAYOUTS, Laboratory


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario")
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("layout", choices=LAYOUTS)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--second", type=int, default=1)
    parser.add_argument("--place")
    parser.add_argument("--sabotage")
    parser.add_argument("--scenarios", default="tests.crash.tasks.scenarios", help="the module that has them")
    given = parser.parse_args()
    known = importlib.import_module(given.scenarios)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the disks are put away
    began = time.monotonic()
    with Laboratory(known.SCENARIOS[given.scenario](), given.layout) as lab:
        whole = unharmed(lab)
        choice = choice_for(whole, given.way, given.step, given.second)
        if given.place:
            choice = Choice(given.step, given.second, points_in(whole, given.place))
        if given.sabotage:
            findings = power(lab, choice, sabotage=known.SABOTAGES[given.sabotage](lab.folders))
        else:
            findings = WAYS[given.way](lab, choice)
    told = {
        "points": findings.points,
        "calls": dict(findings.calls.most_common()),
        "places": dict(findings.places.most_common()),
        "problems": findings.problems,
        "seconds": round(time.monotonic() - began, 1),
    }
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
