"""PodGangs and their backends: told about every gang, and about its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from quarterdeck.api import GroupVersionKind, Key, Writable, controller_of
from quarterdeck.api.finalizer import add_finalizer, has_finalizer, remove_finalizer
from quarterdeck.api.k8s import Pod
from quarterdeck.client import MergePatch
from quarterdeck.errors import ForeignObject, NotFound
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends.contract import (
    BackendFactory,
    HookContext,
    PodGangStatusObserver,
    SchedulerBackend,
    made_kinds_of,
    needs_delete_hook,
    permissions_of,
)
from quarterdeck.operators.grove.backends.error import BackendError, BackendNotFound
from quarterdeck.operators.grove.backends.guard import awaited, guarded_client
from quarterdeck.operators.grove.backends.registry import BackendRegistry
from quarterdeck.operators.grove.backends.report import Operation
from quarterdeck.operators.grove.configuration import OperatorConfiguration
from quarterdeck.operators.grove.types import PodGang
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.change import ObjectEvent
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate, generation_changed, status_changed
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context, DeleteContext
from quarterdeck.runtime.reconcile.finalizer import change_finalizers
from quarterdeck.runtime.reconcile.result import Requeue, Result

from .predicate import IS_MANAGED, IS_TOUCHED
from .shared import SharedState

_LEFT: Final = "the PodGang goes without it, and what it made goes only where the PodGang owns it"


class BackendReconciler(Reconciler[PodGang]):
    """Calls the hooks of backends."""

    def __init__(self, shared: SharedState) -> None:
        self._shared: Final = shared
        self._seen: Final[dict[Key, PodGang]] = {}
        """Gangs that their backend was told about, as they were then."""
        self._tried: Final[dict[Key, str]] = {}
        """UIDs of gangs that their backend was told about, whatever it made of it."""
        self._conditions: Final[dict[str, tuple[Any, ...]]] = {}
        self._again: Final[set[Key]] = set()
        """Gangs that their backend is told about again, though they have not changed."""

    async def reconcile(self, ctx: Context[PodGang]) -> Result | None:
        """Tell the backend of a gang that it is new, changed, or about to go."""
        gang = ctx.obj
        if gang.metadata.is_deleting:
            await self._release(ctx)
            return None
        known = self._seen.get(ctx.key)
        if known is not None and known.metadata.uid != gang.metadata.uid:
            await self._clear(HookContext(ctx.client, ctx.log), known)
            known = None
        backend = await self._backend(ctx)
        gang = ctx.obj
        if needs_delete_hook(backend) and not has_finalizer(gang.metadata, names.BACKEND_FINALIZER):
            after = add_finalizer(gang.metadata, names.BACKEND_FINALIZER)
            ctx.replace(await change_finalizers(ctx.client, gang, after))
            gang = ctx.obj
        hook = HookContext(guarded_client(ctx.client, backend.name), ctx.log)
        is_told_again = ctx.key in self._again
        if known is not None and known.metadata.generation == gang.metadata.generation and not is_told_again:
            await self._tell_status(hook, backend, gang)
            return None
        operation: Operation = "update" if self._tried.get(ctx.key) == gang.metadata.uid else "create"
        self._tried[ctx.key] = gang.metadata.uid
        self._again.discard(ctx.key)  # before: what is lost meanwhile counts
        try:
            with self._shared.report.operating(backend.name, operation, gang):
                await awaited(backend.sync_pod_gang(hook, gang))
        except ForeignObject:
            # It may go at any time, and nobody would tell us: it is not the gang's.
            self._fail(ctx)
            return Requeue(after=names.RETRY, reason="a name is taken")
        except BaseException:
            self._fail(ctx)
            raise
        self._seen[ctx.key] = gang
        self._shared.synced(gang)
        await self._tell_status(hook, backend, gang)
        return None

    def _fail(self, ctx: Context[PodGang]) -> None:
        """The backend is told again, and the pods of the gang wait until it has succeeded."""
        self._again.add(ctx.key)
        self._shared.gone(ctx.obj)

    def touched(self, ctx: MapContext, made: Writable) -> Iterable[Key]:
        """Something that a backend made is gone or changed: the backend is told about its gang again."""
        owner = controller_of(made.metadata.owner_references)
        if owner is None or owner.kind != PodGang.type_info.gvk.kind:
            return ()
        key = Key(made.metadata.namespace, owner.name)
        if key not in self._seen:
            return ()
        self._again.add(key)
        return (key,)

    async def deleted(self, ctx: DeleteContext) -> None:
        """A gang went without our finalizer: its backend is told now."""
        self._tried.pop(ctx.key, None)
        self._again.discard(ctx.key)
        known = self._seen.get(ctx.key)
        if known is not None:
            await self._clear(HookContext(ctx.client, ctx.log), known)
            del self._seen[ctx.key]  # not before: what fails is tried again

    async def _backend(self, ctx: Context[PodGang]) -> SchedulerBackend:
        gang, shared = ctx.obj, self._shared
        label = gang.metadata.labels.get(names.SCHEDULER_NAME)
        if not label:
            label = await self._guess(ctx)
            patch = {"metadata": {"labels": {names.SCHEDULER_NAME: label}}}
            ctx.replace(await ctx.patch(gang, MergePatch(patch)))
        with shared.report.telling(ctx.obj, "update"):
            return await shared.backends.drain(label)

    async def _guess(self, ctx: Context[PodGang]) -> str:
        """The backend of a gang that an older version made: that of its pods, else the active one."""
        for group in ctx.obj.spec.podgroups:
            for reference in group.pod_references:
                try:
                    pod = await ctx.get(Pod, reference.name, reference.namespace, live=True)
                except NotFound:
                    continue
                return pod.spec.scheduler_name
        return self._shared.backends.scheduler_name

    async def _tell_status(self, hook: HookContext, backend: SchedulerBackend, gang: PodGang) -> None:
        if not isinstance(backend, PodGangStatusObserver):
            return
        status = (gang.status.phase, gang.status.conditions)
        if self._conditions.get(gang.metadata.uid) == status:
            return
        with self._shared.report.operating(backend.name, "status_update", gang):
            await awaited(backend.on_pod_gang_status(hook, gang))
        self._conditions[gang.metadata.uid] = status

    async def _release(self, ctx: Context[PodGang]) -> None:
        gang = ctx.obj
        if not has_finalizer(gang.metadata, names.BACKEND_FINALIZER):
            return
        await self._clear(HookContext(ctx.client, ctx.log), gang)
        self._seen.pop(ctx.key, None)
        try:
            after = remove_finalizer(gang.metadata, names.BACKEND_FINALIZER)
            await change_finalizers(ctx.client, gang, after)
        except NotFound:
            return

    async def _clear(self, hook: HookContext, gang: PodGang) -> None:
        """Let the backend clear away what it made; a gang does not wait for one that is not installed."""
        label = gang.metadata.labels.get(names.SCHEDULER_NAME, "")
        backends, report = self._shared.backends, self._shared.report
        if backends.is_installed(label):
            with report.telling(gang, "delete"):
                backend = await backends.drain(label)
            guarded = HookContext(guarded_client(hook.client, backend.name), hook.log)
            with report.operating(backend.name, "delete", gang):
                await awaited(backend.on_pod_gang_delete(guarded, gang))
        else:
            report.failed(gang, "OnPodGangDelete", f"{BackendNotFound(label)}; {_LEFT}")
        self._conditions.pop(gang.metadata.uid, None)
        self._shared.gone(gang)


def _wants_status(shared: SharedState) -> Predicate:
    changed = status_changed()

    def passes(event: ObjectEvent[Any]) -> bool:
        observers = (isinstance(each, PodGangStatusObserver) for each in shared.backends.backends.values())
        return any(observers) and changed(event)

    return Predicate("wants_status", update=passes, generic=lambda event: False)


def _factories(
    schedulers: Iterable[str], configuration: OperatorConfiguration, registry: BackendRegistry
) -> Iterator[tuple[BackendFactory, Mapping[str, Any]]]:
    """Backends with their options."""
    for name in schedulers:
        try:
            yield registry.get_factory(name), configuration.options_of(name)
        except BackendError:
            continue  # the same error ends the start, with its cause


def _backend_rules(configuration: OperatorConfiguration, registry: BackendRegistry) -> list[Rule]:
    """What the backends of a configuration say they need; KAI's rights are few enough for everybody."""
    chosen = dict.fromkeys((names.KAI_SCHEDULER, *configuration.enabled_schedulers))
    found = _factories(chosen, configuration, registry)
    return [rule for factory, config in found for rule in permissions_of(factory, config)]


def _made_kinds(configuration: OperatorConfiguration, registry: BackendRegistry) -> list[GroupVersionKind]:
    """What the backends of a configuration make for gangs."""
    found = _factories(configuration.enabled_schedulers, configuration, registry)
    return list(dict.fromkeys(kind for factory, config in found for kind in made_kinds_of(factory, config)))


def backend_controller(shared: SharedState) -> Controller[PodGang]:
    """The controller, for ``manager.add``."""
    configuration = shared.configuration
    name = names.BACKEND_CONTROLLER
    if configuration.scheduler is None:
        name = f"{name}-{configuration.scheduler_name}"
    reconciler = BackendReconciler(shared)
    builder = (
        Builder(name=name)
        .for_(PodGang, predicates=[IS_MANAGED, generation_changed | _wants_status(shared)])
        .rbac(
            *_backend_rules(configuration, shared.backends.registry),
            Rule(groups=(names.SCHEDULER_GROUP,), resources=("podgangs",), verbs=("patch",)),
            # what a backend makes for a gang holds back the gang's deletion
            Rule(groups=(names.SCHEDULER_GROUP,), resources=("podgangs/finalizers",), verbs=("update",)),
            Rule(groups=("",), resources=("pods",), verbs=("get",)),
        )
        .options(
            max_concurrent_reconciles=configuration.controllers.pod_gang.concurrent_syncs,
            field_manager=names.FIELD_MANAGER,
            backoff_cap=1000.0,
        )
    )
    for kind in _made_kinds(configuration, shared.backends.registry):
        builder.watches(
            kind, to=reconciler.touched, predicates=[IS_TOUCHED], optional=True, only_metadata=True
        )
    return builder.build(reconciler)
