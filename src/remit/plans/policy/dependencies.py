"""The order in which the actions of a plan run. Pure.

An action needs the actions that it names, and the earlier actions on the same file, named or not. The order is the same
wherever the plan runs: of the actions that need nothing more, the one that comes first in the plan is next.
"""

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence

from remit.contracts.plans.plan import Action, FileRename
from remit.core.errors import Reason, RefusedError
from remit.fs.paths import plain_spelling


def paths_of_action(action: Action) -> tuple[str, ...]:
    """Return the files that an action on files changes, each in its normal spelling."""
    named = [action.target] if action.target is not None else []
    if isinstance(action, FileRename):
        named.append(action.operation.new_path)
    return tuple(map(plain_spelling, named))


Touched = Callable[[Action], Sequence[str]]
"""The files by which one action can depend on another. For SQL, only the configuration knows them."""


def order_actions(actions: Sequence[Action], touched: Touched = paths_of_action) -> tuple[int, ...]:
    """Return the indices of the actions in the order of execution. Refuses unknown ids and cycles."""
    order, _ = _sort(needs_of(actions, touched))
    return order


def needs_of(actions: Sequence[Action], touched: Touched = paths_of_action) -> dict[int, tuple[int, ...]]:
    """Return the actions that each action needs, explicit and implied, by index. Refuses unknown ids and cycles.

    Of two actions on one file, the later in the plan needs the earlier, unless `depends_on` says the opposite.
    """
    needs = _explicit_needs(actions)
    order, left = _sort(needs)
    if left:
        raise _cycle(actions, needs, left)
    _add_implied(needs, order, _touching(actions, touched))
    return {index: tuple(sorted(needed)) for index, needed in needs.items()}


def levels(order: Sequence[int], needs: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """Return groups of actions that may run at once. A group needs only actions of the groups before it."""
    level_of: dict[int, int] = {}
    grouped: defaultdict[int, list[int]] = defaultdict(list)
    for index in order:
        level_of[index] = 1 + max((level_of[needed] for needed in needs.get(index, ())), default=-1)
        grouped[level_of[index]].append(index)
    return [grouped[level] for level in sorted(grouped)]


def _explicit_needs(actions: Sequence[Action]) -> dict[int, set[int]]:
    index_of = {action.action_id: index for index, action in enumerate(actions)}
    needs: dict[int, set[int]] = {}
    for index, action in enumerate(actions):
        for needed in action.depends_on:
            if needed not in index_of:
                raise RefusedError(
                    Reason.DEPENDENCY_INVALID,
                    f"the action {action.action_id!r} depends on {needed!r}, which is not in the plan",
                    where=f"action {action.action_id}, depends_on",
                    next_step="Name an action of this plan.",
                )
        needs[index] = {index_of[needed] for needed in action.depends_on}
    return needs


def _sort(needs: Mapping[int, Sequence[int] | set[int]]) -> tuple[tuple[int, ...], list[int]]:
    """Sort by Kahn's algorithm. Also return the actions that are left over: they are on a cycle or need one."""
    waiting = {index: len(set(needed)) for index, needed in needs.items()}
    dependants: defaultdict[int, list[int]] = defaultdict(list)
    for index, needed in needs.items():
        for one in set(needed):
            dependants[one].append(index)
    ready = [index for index, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for dependant in dependants[index]:
            waiting[dependant] -= 1
            if waiting[dependant] == 0:
                heapq.heappush(ready, dependant)
    return tuple(order), sorted(index for index, count in waiting.items() if count)


def _touching(actions: Sequence[Action], touched: Touched) -> list[list[int]]:
    """Return, for each file, the actions that touch it, in the order of the plan."""
    by_path: defaultdict[str, list[int]] = defaultdict(list)
    for index, action in enumerate(actions):
        for path in dict.fromkeys(touched(action)):
            by_path[path].append(index)
    return list(by_path.values())


def _add_implied(needs: dict[int, set[int]], order: Sequence[int], groups: Sequence[Sequence[int]]) -> None:
    """Give each group one order. It never contradicts an existing need, so it cannot make a cycle."""
    # The actions before each action, as one bit for each: a plan may have a thousand actions on one file.
    before = dict.fromkeys(order, 0)
    for index in order:
        for needed in needs[index]:
            before[index] |= before[needed] | 1 << needed
    for group in groups:
        for place, later in enumerate(group):
            for earlier in reversed(group[:place]):  # the nearest first: most of the others are before that one
                if not (before[later] >> earlier | before[earlier] >> later) & 1:
                    needs[later].add(earlier)
                    _spread(before, later, before[earlier] | 1 << earlier)


def _spread(before: dict[int, int], index: int, gained: int) -> None:
    """Add the actions that now come before this action to its dependants too."""
    for other, known in before.items():
        if other == index or known >> index & 1:
            before[other] = known | gained


def _cycle(actions: Sequence[Action], needs: Mapping[int, set[int]], left: Sequence[int]) -> RefusedError:
    """Return an error that names the shortest cycle through its first action, `a -> b -> a`: each needs the next."""
    remaining = set(left)
    walked: dict[int, None] = {}
    here = left[0]
    while here not in walked:  # each action that is left needs another one that is left, so the walk repeats one
        walked[here] = None
        here = min(needs[here] & remaining)
    steps = list(walked)
    first = min(steps[steps.index(here) :])
    names = " -> ".join(actions[index].action_id for index in _find_cycle(first, needs, remaining))
    return RefusedError(
        Reason.DEPENDENCY_INVALID,
        f"the actions depend on each other in a circle: {names}",
        where=f"action {actions[first].action_id}, depends_on",
        next_step="Remove one of these dependencies.",
    )


def _find_cycle(first: int, needs: Mapping[int, set[int]], among: set[int]) -> list[int]:
    """Return the shortest path from an action along its needs to itself, both ends included."""
    previous: dict[int, int] = {}
    pending = deque([first])
    while first not in previous:
        here = pending.popleft()
        for needed in sorted(needs[here] & among):
            if needed not in previous:
                previous[needed] = here
                pending.append(needed)
    path = [first, previous[first]]
    while path[-1] != first:
        path.append(previous[path[-1]])
    return path[::-1]
