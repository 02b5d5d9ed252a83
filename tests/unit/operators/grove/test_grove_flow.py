"""In which order gangs and pods come, here and in the order before that a benchmark compares with."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from benchmarks.groveflow import pods_first

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import Pod
from quarterdeck.operators.grove.types import PodGang

from .grovekit import NS, clique, pcs, running


@pytest.mark.parametrize("is_before", [False, True])
async def test_the_order_before_is_what_the_benchmark_compares_with(is_before: bool) -> None:
    with pods_first() if is_before else nullcontext():
        async with running() as grove:
            made = pcs(clique("a", 2), clique("b"))
            await grove.client.create(made.evolve(metadata=ObjectMeta(name="w", namespace=NS)))
            await grove.settle()
            written = [each.target for each in grove.link.log if each.is_write and each.status < 300]
            kinds = ["gang" if "podgangs" in each.resource else each.resource for each in written]
            gangs = [place for place, kind in enumerate(kinds) if kind == "gang"]
            pods = [
                place
                for place, kind in enumerate(kinds)
                if kind.startswith("pods") and written[place].verb == "create"
            ]
            assert len(pods) == 3
            assert (gangs[0] > pods[-1]) is is_before
            # created complete; or empty and told so, then filled and told so
            assert len(gangs) == (1 if is_before else 4)
            [gang] = (await grove.client.list(PodGang, namespace=NS)).items
            assert [len(group.pod_references) for group in gang.spec.podgroups] == [2, 1]
            for pod in await grove.client.list(Pod, namespace=NS):
                assert pod.spec.scheduling_gates == ()
