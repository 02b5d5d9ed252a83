"""Shorter runs that may show the same as a long one. Pure."""

from collections.abc import Iterator

import msgspec

from quarterdeck.testing.torture.perturbation import Seed
from quarterdeck.testing.torture.workload import Workload


def without_the_rest(seed: Seed, count: int, last: int) -> Seed:
    """Without the steps behind the one that showed it; ``count`` is the number of steps of the workload."""
    steps = seed.steps if seed.steps is not None else tuple(range(count))
    return Seed(seed.perturbations, steps[: last + 1])


def without_an_edit(seed: Seed, workload: Workload) -> Iterator[Seed]:
    """Without one of the edits; a perturbation that names a later step moves with it.

    Perturbations at a write stay where they are only if no step is left out before them, because writes are
    counted from the beginning: such seeds are tried, and may show nothing.
    """
    steps = seed.steps or ()
    named = {each.step for each in seed.perturbations}
    for place, step in enumerate(steps[:-1]):
        if workload.steps[step].verb != "edit" or place in named:
            continue
        moved = tuple(
            msgspec.structs.replace(each, step=each.step - 1) if each.step > place else each
            for each in seed.perturbations
            if each.pattern != "stale"  # it names a second step
        )
        if len(moved) == len(seed.perturbations):
            yield Seed(moved, steps[:place] + steps[place + 1 :])
