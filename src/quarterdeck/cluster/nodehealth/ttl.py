"""The annotation that says how long kubelets may keep Secrets and ConfigMaps: longer in large clusters.

The steps overlap, so that a cluster that breathes does not write to all nodes again and again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from quarterdeck.api import Key, Resource
from quarterdeck.api.k8s import Node
from quarterdeck.client import MergePatch, metadata_of
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.errors import NotFound, ignore_not_found
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "ttl-controller"
ANNOTATION: Final = "node.alpha.kubernetes.io/ttl"
_SETTLE: Final = 5.0
"""Seconds that changes of nodes are gathered: many nodes often come together."""


class _Step(NamedTuple):
    fewest: int
    most: float
    seconds: int


_STEPS: Final = (
    _Step(0, 100, 0),
    _Step(90, 500, 15),
    _Step(450, 1000, 30),
    _Step(900, 2000, 60),
    _Step(1800, float("inf"), 300),
)


class TtlSteps:
    """Which step a cluster is on."""

    def __init__(self) -> None:
        self._place = 0

    def seconds(self, nodes: int) -> int:
        """How long kubelets may keep objects in a cluster of this size."""
        while nodes > _STEPS[self._place].most:
            self._place += 1
        while nodes < _STEPS[self._place].fewest:
            self._place -= 1
        return _STEPS[self._place].seconds


class _Annotator(Reconciler[Resource]):
    def __init__(self) -> None:
        self._steps: Final = TtlSteps()
        self._seconds = 0

    async def reconcile(self, ctx: Context[Resource]) -> Result | None:
        wanted = str(self._seconds)
        try:
            node = await ctx.get(metadata_of(Node), ctx.key.name)
        except NotFound:
            return None
        if node.metadata.annotations.get(ANNOTATION) == wanted:
            return None
        reference = Node(metadata=node.metadata)
        with ignore_not_found():
            await ctx.client.patch(reference, MergePatch({"metadata": {"annotations": {ANNOTATION: wanted}}}))
        return None

    def keys(self, event: ObjectEvent[Any], context: MapContext) -> Iterable[Key]:
        """The node that changed; all of them where the step is another one now."""
        informer = context.cache.informer(metadata_of(Node))
        seconds = self._steps.seconds(sum(len(shard.store) for shard in informer.shards))
        if seconds != self._seconds:
            self._seconds = seconds
            return [entry.key for entry in informer.entries()]
        return (event.entry.key,) if event.new is not None else ()


def ttl_controller() -> Controller[Resource]:
    """The controller, for ``manager.add``."""
    annotator = _Annotator()
    return (
        Builder[Resource](name=NAME)
        .watches(Node, to=annotator, only_metadata=True, delay=lambda _: _SETTLE)
        .rbac(Rule(groups=("",), resources=("nodes",), verbs=("patch",)))
        .options(field_manager=FIELD_MANAGER)
        .build(annotator)
    )
