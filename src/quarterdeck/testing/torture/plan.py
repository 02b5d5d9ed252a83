"""Which runs there are: every perturbation of a reference run, each pattern early. Pure."""

import random
from collections.abc import Collection, Iterator, Mapping
from itertools import zip_longest
from typing import Final

from quarterdeck.testing.torture import tampering
from quarterdeck.testing.torture.perturbation import PATTERNS, Perturbation, Seed, WritePoint
from quarterdeck.testing.torture.picture import StoredObject
from quarterdeck.testing.torture.reference import Reference
from quarterdeck.testing.torture.schema import Change
from quarterdeck.testing.torture.workload import Workload

_REFUSALS: Final = ("409", "500", "429")
_LOSSES: Final = ("504", "500")
_SETS: Final = frozenset({"deployments.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch", "pods"})


def seeds_of(
    workload: Workload,
    reference: Reference,
    changes: Mapping[str, Change],
    *,
    patterns: Collection[str] = PATTERNS.keys(),
    seed: int = 0,
) -> list[Seed]:
    """Every run; another ``seed`` gives another order within each pattern."""
    dice = random.Random(seed)  # noqa: S311  an order, no secret
    columns = []
    for pattern, make in _MAKERS.items():
        if pattern in patterns:
            column = list(make(workload, reference, changes))
            dice.shuffle(column)
            columns.append(column)
    rows = zip_longest(*columns)
    return [seed_ for row in rows for seed_ in row if seed_ is not None]


def _points(reference: Reference) -> list[WritePoint]:
    """The writes that were stored, without those that repeat often."""
    return [each.point for each in reference.writes if each.status < 300 and each.point.nth <= 12]


def _one(pattern: str, what: str = "", point: WritePoint | None = None, step: int = -1) -> Seed:
    return Seed((Perturbation(pattern, what, point, step),))


def _kill(workload: Workload, reference: Reference, _: object) -> Iterator[Seed]:
    for point in _points(reference):
        yield _one("kill", point=point)


def _refuse(workload: Workload, reference: Reference, _: object) -> Iterator[Seed]:
    for point in _points(reference):
        for code in _REFUSALS:
            if code != "409" or point.verb in ("update", "patch"):
                yield _one("refuse", code, point)


def _lose(workload: Workload, reference: Reference, _: object) -> Iterator[Seed]:
    for point in _points(reference):
        for code in _LOSSES:
            yield _one("lose", code, point)


def _cut(workload: Workload, reference: Reference, _: object) -> Iterator[Seed]:
    for point in _points(reference):
        yield _one("cut", point=point)


def _hold(workload: Workload, reference: Reference, _: object) -> Iterator[Seed]:
    for step in range(len(workload.steps)):
        for resource in reference.watched:
            yield _one("hold", resource, step=step)


def _miss(workload: Workload, reference: Reference, _: object) -> Iterator[Seed]:
    for step in range(len(workload.steps)):
        for resource in ("", *reference.watched):
            yield _one("miss", resource, step=step)


def _stale(workload: Workload, reference: Reference, _: object) -> Iterator[Seed]:
    for step in range(1, len(workload.steps)):
        for earlier in range(step):
            yield _one("stale", str(earlier), step=step)
            yield _one("stale", f"{earlier}begin", step=step)
    for write in reference.writes:
        for step in range(write.step, min(write.step + 3, len(workload.steps))):
            if write.status < 300 and write.point.nth <= 6:
                yield _one("stale", str(write.point), step=step)


def _pause(workload: Workload, reference: Reference, _: object) -> Iterator[Seed]:
    for step in range(1, len(workload.steps)):
        yield _one("pause", step=step)


def _recreate(workload: Workload, reference: Reference, _: object) -> Iterator[Seed]:
    for step, each in enumerate(workload.steps):
        if each.verb != "delete":
            yield _one("recreate", step=step)


def _children(workload: Workload, reference: Reference) -> Iterator[tuple[int, StoredObject]]:
    """What the operator has made, at rest after each step; of generated names one."""
    created = {
        each.key for each in reference.writes if each.point.verb in ("create", "apply") and each.status < 300
    }
    mains = {(each.object["apiVersion"], each.object["kind"]) for each in workload.steps}
    for step, state in enumerate(reference.states):
        seen = set()
        for each in state:
            is_main = (each.document["apiVersion"], each.document["kind"]) in mains
            if each.key in created and not is_main and each.key not in seen:
                seen.add(each.key)
                yield step, each


def _slashed(found: StoredObject) -> str:
    return found.key.replace(" ", "/")


def _delete_child(workload: Workload, reference: Reference, _: object) -> Iterator[Seed]:
    for step, child in _children(workload, reference):
        yield _one("delete-child", _slashed(child), step=step)


def _edit_child(workload: Workload, reference: Reference, _: object) -> Iterator[Seed]:
    for step, child in _children(workload, reference):
        if tampering.edit_of(child):
            yield _one("edit-child", _slashed(child), step=step)


def _occupy(workload: Workload, reference: Reference, _: object) -> Iterator[Seed]:
    deletes = [place for place, each in enumerate(workload.steps) if each.verb == "delete"]
    steps = (0, *deletes[:1])
    for step, child in _children(workload, reference):
        if step == 0 and not child.key.endswith("*"):
            yield Seed((Perturbation("occupy", _slashed(child)),), steps)


def _neighbour(workload: Workload, reference: Reference, _: object) -> Iterator[Seed]:
    yield _one("neighbour", step=0)


def _starve(workload: Workload, reference: Reference, _: object) -> Iterator[Seed]:
    if any(child.resource in _SETS for step, child in _children(workload, reference) if step == 0):
        yield _one("starve")


def _block(workload: Workload, reference: Reference, _: object) -> Iterator[Seed]:
    pairs = {(each.step, each.key.split(" ")[0]) for each in reference.writes if each.status < 300}
    for step, resource in sorted(pairs):
        if workload.steps[step].verb != "delete":
            yield _one("block", resource, step=step)


def _field(workload: Workload, reference: Reference, changes: Mapping[str, Change]) -> Iterator[Seed]:
    for name, change in changes.items():
        if change.is_valid:
            yield Seed((Perturbation("field", name, None, 0),), (0,))


def _invalid(workload: Workload, reference: Reference, changes: Mapping[str, Change]) -> Iterator[Seed]:
    for name, change in changes.items():
        if not change.is_valid:
            yield Seed((Perturbation("invalid", name, None, 0),), (0,))


_MAKERS: Final = {
    "kill": _kill,
    "delete-child": _delete_child,
    "stale": _stale,
    "miss": _miss,
    "lose": _lose,
    "refuse": _refuse,
    "recreate": _recreate,
    "occupy": _occupy,
    "neighbour": _neighbour,
    "block": _block,
    "starve": _starve,
    "field": _field,
    "edit-child": _edit_child,
    "hold": _hold,
    "cut": _cut,
    "pause": _pause,
    "invalid": _invalid,
}
