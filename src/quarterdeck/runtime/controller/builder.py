"""The builder: a controller in a few lines, checked by the type checker.

    controller = (
        mgr.controller(TrainJob)
        .predicates(generation_changed | annotations_changed)
        .owns(JobSet)
        .watches(TrainingRuntime, to=jobs_using_runtime, only_metadata=True)
        .indexes(Pod, owner_uid)
        .options(max_concurrent_reconciles=8)
        .build(TrainJobReconciler())
    )

It only collects: everything it builds can be built from ``Controller`` and the sources by hand.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, Literal, Self, TypeVar, Unpack, cast, overload

import msgspec

from quarterdeck.api import DynamicObject, GroupVersionKind, Key, Resource
from quarterdeck.client import AnyKind, MetadataKind, metadata_of
from quarterdeck.errors import ConfigError
from quarterdeck.runtime.cache.index import Index
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import KeyMapper, MapFunction, for_object, for_owner, mapped
from quarterdeck.runtime.controller.option import ControllerOptionArguments, ControllerOptions
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import ReconcileFunction, Reconciler, as_reconciler
from quarterdeck.runtime.controller.source import Delay, KindSource, Source
from quarterdeck.runtime.queue.ratelimit import RateLimiter
from quarterdeck.runtime.queue.workqueue import LOW_PRIORITY
from quarterdeck.runtime.rbac import Rule, for_rules, merge_rules, owns_rules, watch_rules
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.finalizer import FinalizerRegistry
from quarterdeck.runtime.reconcile.result import Result

T = TypeVar("T", bound=Resource)
K = TypeVar("K", bound=Resource)


class Builder(Generic[T]):
    """Collects what a controller is made of."""

    def __init__(
        self,
        kind: type[T] | None = None,
        *,
        name: str = "",
    ) -> None:
        self._kind = kind
        self._reads: AnyKind | None = kind
        self._name = name
        self._for_predicates: tuple[Predicate, ...] = ()
        self._for_delay: Delay | None = None
        self._predicates: list[Predicate] = []
        self._sources: list[Source] = []
        self._owned: list[tuple[AnyKind, dict[str, Any]]] = []
        self._indexes: list[tuple[AnyKind, Index[Any]]] = []
        self._finalizers: FinalizerRegistry[Context[T]] = FinalizerRegistry()
        self._rules: list[Rule] = []
        self._options = ControllerOptions()
        self._limiter: RateLimiter[Key] | None = None

    @overload
    def for_(
        self,
        kind: type[K],
        *,
        predicates: Sequence[Predicate] = ...,
        only_metadata: Literal[False] = ...,
        delay: Delay | None = ...,
    ) -> "Builder[K]": ...
    @overload
    def for_(
        self,
        kind: type[K],
        *,
        predicates: Sequence[Predicate] = ...,
        only_metadata: bool,
        delay: Delay | None = ...,
    ) -> "Builder[Any]": ...
    def for_(
        self,
        kind: type[K],
        *,
        predicates: Sequence[Predicate] = (),
        only_metadata: bool = False,
        delay: Delay | None = None,
    ) -> "Builder[Any]":
        """The kind to reconcile; once. ``predicates`` apply to this watch only.

        With ``only_metadata`` nothing else is fetched: ``ctx.obj`` is a ``PartialObjectMetadata``. ``delay``
        says for how many seconds changes of an object are gathered.
        """
        if self._kind is not None:
            raise ConfigError(
                "For(...) should only be called once, could not assign multiple objects for reconciliation"
            )
        builder = cast("Builder[K]", self)
        builder._kind = kind
        builder._reads = metadata_of(kind) if only_metadata else kind
        builder._for_predicates = tuple(predicates)
        builder._for_delay = delay
        return builder

    def named(self, name: str) -> Self:
        """The controller's name; default the lower-cased kind."""
        self._name = name
        return self

    def predicates(self, *predicates: Predicate) -> Self:
        """Let pass only changes that matter, on every watch of this controller."""
        self._predicates += predicates
        return self

    def owns(
        self,
        kind: type[Resource] | GroupVersionKind,
        *,
        predicates: Sequence[Predicate] = (),
        match_every_owner: bool = False,
        optional: bool = False,
        only_metadata: bool = False,
        delay: Delay | None = None,
    ) -> Self:
        """Watch children: a change of one wakes the owner that controls it.

        ``match_every_owner`` wakes owners that do not control it too. ``optional`` waits for a CRD that
        may come later, or never. ``only_metadata`` fetches metadata only. ``delay`` says for how many seconds
        changes that concern an owner are gathered.
        """
        chosen = metadata_of(kind) if only_metadata else kind
        how = {"predicates": predicates, "every": match_every_owner, "optional": optional, "delay": delay}
        self._owned.append((chosen, how))
        self._rules += owns_rules(chosen)
        return self

    @overload
    def watches(
        self,
        kind: type[K],
        *,
        to: MapFunction[K] | KeyMapper = ...,
        predicates: Sequence[Predicate] = ...,
        optional: bool = ...,
        only_metadata: Literal[False] = ...,
        initial_priority: int = ...,
        delay: Delay | None = ...,
    ) -> Self: ...
    @overload
    def watches(
        self,
        kind: type[Resource] | GroupVersionKind,
        *,
        to: MapFunction[Any] | KeyMapper = ...,
        predicates: Sequence[Predicate] = ...,
        optional: bool = ...,
        only_metadata: bool,
        initial_priority: int = ...,
        delay: Delay | None = ...,
    ) -> Self: ...
    @overload
    def watches(
        self,
        kind: GroupVersionKind,
        *,
        to: MapFunction[DynamicObject] | KeyMapper = ...,
        predicates: Sequence[Predicate] = ...,
        optional: bool = ...,
        only_metadata: Literal[False] = ...,
        initial_priority: int = ...,
        delay: Delay | None = ...,
    ) -> Self: ...
    def watches(
        self,
        kind: type[Resource] | GroupVersionKind,
        *,
        to: MapFunction[Any] | KeyMapper = for_object,
        predicates: Sequence[Predicate] = (),
        optional: bool = False,
        only_metadata: bool = False,
        initial_priority: int = LOW_PRIORITY,
        delay: Delay | None = None,
    ) -> Self:
        """Watch another kind; ``to`` names the keys that its changes concern.

        ``delay`` says for how many seconds changes that concern a key are gathered.
        """
        chosen = metadata_of(kind) if only_metadata else kind
        mapper = mapped(to) if callable(to) else to
        self._sources.append(
            KindSource(
                chosen,
                mapper,
                predicates=predicates,
                optional=optional,
                initial_priority=initial_priority,
                delay=delay,
            )
        )
        self._rules += watch_rules(chosen)
        return self

    def source(self, source: Source) -> Self:
        """Any other source: a channel, a timer, a function."""
        self._sources.append(source)
        return self

    @overload
    def indexes(self, kind: type[K], *indexes: Index[K]) -> Self: ...
    @overload
    def indexes(self, kind: GroupVersionKind | MetadataKind, *indexes: Index[Any]) -> Self: ...
    def indexes(self, kind: AnyKind, *indexes: Index[Any]) -> Self:
        """Keep indexes on a kind, which is cached for that."""
        self._indexes += [(kind, index) for index in indexes]
        self._rules += watch_rules(kind)
        return self

    def finalizer(self, name: str, cleanup: Callable[[Context[T]], Awaitable[Result | None]]) -> Self:
        """Clean up before an object goes.

        The entry is added before ``reconcile`` first sees the object. Once the object is being deleted,
        only ``cleanup`` runs; the entry is removed when it returns ``None``, and stays while it returns a
        result.
        """
        self._finalizers.register(name, cleanup)
        return self

    def rbac(self, *rules: Rule) -> Self:
        """Permissions beyond those that follow from the declarations."""
        self._rules += rules
        return self

    def options(self, **options: Unpack[ControllerOptionArguments]) -> Self:
        """Set options of the controller; see ``ControllerOptions``."""
        self._options = msgspec.structs.replace(self._options, **options)
        return self

    def limiter(self, limiter: RateLimiter[Key]) -> Self:
        """How failed keys wait; default exponential, see ``backoff_base`` and ``backoff_cap``."""
        self._limiter = limiter
        return self

    def build(self, reconciler: Reconciler[T] | ReconcileFunction[T]) -> Controller[T]:
        """The controller; raises ``ConfigError`` where declarations do not fit together."""
        kind = self._kind
        if kind is None and self._owned:
            raise ConfigError("Owns() can only be used together with For()")
        if kind is None and not self._name:
            raise ConfigError("one of For() or Named() must be called")
        sources: list[Source] = []
        rules = list(self._rules)
        if kind is not None and self._reads is not None:
            sources.append(
                KindSource(self._reads, for_object, predicates=self._for_predicates, delay=self._for_delay)
            )
            rules += for_rules(
                kind,
                uses_finalizers=len(self._finalizers) > 0,
                owns_others=bool(self._owned),
                writes_status=self._reads is kind,
            )
            for owned, how in self._owned:
                mapper = for_owner(kind, only_controller=not how["every"])
                sources.append(
                    KindSource(
                        owned,
                        mapper,
                        predicates=how["predicates"],
                        optional=how["optional"],
                        delay=how["delay"],
                    )
                )
        sources += self._sources
        if not sources:
            raise ConfigError(
                "there are no watches configured, controller will never get triggered. Use For(), Owns(), "
                "Watches() or WatchesRawSource() to set them up"
            )
        controller: Controller[T] = Controller(
            name=self._name or (kind.type_info.kind.lower() if kind is not None else ""),
            kind=kind,
            reads=self._reads,
            reconciler=as_reconciler(reconciler),
            sources=sources,
            predicates=self._predicates,
            finalizers=self._finalizers,
            options=self._options,
            limiter=self._limiter,
            indexes=self._indexes,
            rules=merge_rules(rules),
        )
        return controller
