"""ClusterTopologyBindings: the topologies of schedulers kept like ours, or compared with it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Final

from quarterdeck.api import UNSET, GroupVersionKind, Key, Time, Writable
from quarterdeck.api.condition import find_condition
from quarterdeck.errors import QuarterdeckError
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends.contract import (
    DeclaresTopologyKind,
    HookContext,
    SchedulerBackend,
    TopologyAware,
    TopologyState,
)
from quarterdeck.operators.grove.backends.error import BackendError
from quarterdeck.operators.grove.backends.guard import awaited
from quarterdeck.operators.grove.logic.verdict import Verdict, with_verdicts
from quarterdeck.operators.grove.types import ClusterTopologyBinding, SchedulerTopologyStatus
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import generation_changed
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.result import Requeue, Result

from .outcome import write_status
from .shared import SharedState

_PERIOD: Final = 300.0
"""Seconds between two looks at topologies that others look after."""


class TopologyReconciler(Reconciler[ClusterTopologyBinding]):
    """Keeps topologies of schedulers, and says how they compare."""

    def __init__(self, shared: SharedState) -> None:
        self._shared: Final = shared
        self._seen: Final[dict[Key, ClusterTopologyBinding]] = {}

    async def deleted(self, ctx: DeleteContext) -> None:
        """A topology is gone: what backends made of it goes by its owner, unless they have more to do."""
        topology = self._seen.get(ctx.key)
        if topology is None:
            return
        hook = HookContext(ctx.client, ctx.log)
        for backend in self._shared.backends.backends.values():
            if isinstance(backend, TopologyAware):
                await awaited(backend.on_topology_delete(hook, topology))
        del self._seen[ctx.key]  # not before: what fails is tried again

    async def reconcile(self, ctx: Context[ClusterTopologyBinding]) -> Result | None:
        """Look at every backend that has topologies of its own."""
        topology = ctx.obj
        if topology.metadata.is_deleting or not self._shared.keeps(topology):
            return None
        self._seen[ctx.key] = topology
        bound = {
            each.scheduler_name: each.topology_reference for each in topology.spec.scheduler_topology_bindings
        }
        hook, backends = HookContext(ctx.client, ctx.log), self._shared.backends.backends
        statuses: list[SchedulerTopologyStatus] = []
        failure: Exception | None = None
        is_missing = not all(isinstance(backends.get(name), TopologyAware) for name in bound)
        for name, backend in backends.items():
            if not isinstance(backend, TopologyAware):
                continue
            try:
                statuses.append(await _compare(hook, name, backend, topology, bound.get(name)))
            except QuarterdeckError as error:
                failure = error
                statuses.append(
                    SchedulerTopologyStatus(scheduler_name=name, in_sync=False, message=str(error))
                )
        verdict = _verdict(statuses, is_missing=is_missing)
        now: Time = ctx.now()
        status = topology.status.evolve(
            observed_generation=topology.metadata.generation,
            conditions=with_verdicts(topology.status.conditions, (verdict,), now=now),
            scheduler_topology_statuses=tuple(statuses),
        )
        before = find_condition(topology.status.conditions, names.TOPOLOGY_DRIFT)
        await write_status(ctx, status)
        if before is None or before.status != verdict.status:
            _tell_transition(ctx, verdict)
        if failure is not None:
            raise failure
        return Requeue(after=_PERIOD) if bound else None


async def _compare(
    hook: HookContext,
    name: str,
    backend: SchedulerBackend,
    topology: ClusterTopologyBinding,
    reference: str | None,
) -> SchedulerTopologyStatus:
    """The state of one backend's topology: ours to keep, or only to be compared if it is bound."""
    assert isinstance(backend, TopologyAware)
    if reference is None:
        await awaited(backend.sync_topology(hook, topology))
        resource = backend.topology_resource_name(topology)
        return SchedulerTopologyStatus(scheduler_name=name, topology_reference=resource, in_sync=True)
    found = backend.check_topology_drift(hook, topology, reference)
    state: TopologyState = await found if inspect.isawaitable(found) else found
    return SchedulerTopologyStatus(
        scheduler_name=name,
        topology_reference=reference,
        in_sync=state.is_in_sync,
        message=state.message,
        scheduler_backend_topology_observed_generation=state.observed_generation or UNSET,
    )


def _verdict(statuses: list[SchedulerTopologyStatus], *, is_missing: bool) -> Verdict:
    type = names.TOPOLOGY_DRIFT
    if is_missing:
        text = "One or more referenced scheduler backends are unavailable for topology management"
        return Verdict(type, "Unknown", "TopologyNotFound", text)
    if all(each.in_sync for each in statuses):
        return Verdict(type, "False", "InSync", "All scheduler backend topologies are in sync")
    return Verdict(type, "True", "Drift", "One or more scheduler backend topologies have drifted")


def _tell_transition(ctx: Context[ClusterTopologyBinding], verdict: Verdict) -> None:
    if verdict.status == "True":
        ctx.event("Warning", "TopologyDriftDetected", verdict.message)
    elif verdict.status == "False":
        ctx.event("Normal", "TopologyInSync", verdict.message)


async def _every_topology(ctx: MapContext, changed: Writable) -> Iterable[Key]:
    """All of ours: there are few, and any of them may be made into or compared with what changed."""
    return [each.key for each in await ctx.cache.list(ClusterTopologyBinding)]


def topology_controller(shared: SharedState) -> Controller[ClusterTopologyBinding]:
    """The controller, for ``manager.add``."""
    builder = (
        Builder(name=names.TOPOLOGY_CONTROLLER)
        .for_(ClusterTopologyBinding, predicates=[generation_changed])
        .options(field_manager=names.FIELD_MANAGER, backoff_cap=1000.0)
    )
    for kind in _scheduler_kinds(shared):
        builder.watches(
            kind, to=_every_topology, predicates=[generation_changed], optional=True, only_metadata=True
        )
    return builder.build(TopologyReconciler(shared))


def _scheduler_kinds(shared: SharedState) -> list[GroupVersionKind]:
    """The topologies of schedulers that are configured, where their backends name the kind."""
    found: dict[GroupVersionKind, None] = {}
    for name in shared.configuration.enabled_schedulers:
        try:
            factory = shared.backends.registry.get_factory(name)
        except BackendError:
            continue  # the same error ends the start, with its cause
        # a class whose backends only know it themselves has a property here
        if isinstance(factory, DeclaresTopologyKind) and isinstance(factory.topology_gvk, GroupVersionKind):
            found[factory.topology_gvk] = None
    return list(found)
