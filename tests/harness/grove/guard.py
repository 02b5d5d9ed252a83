"""The operator's webhooks without the operator: a configuration and its backends are enough for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quarterdeck.api import Scheme
from quarterdeck.client import Client
from quarterdeck.operators.grove.backends import BackendManager, BackendRegistry, HookContext
from quarterdeck.operators.grove.backends.guard import guarded_client
from quarterdeck.operators.grove.backends.report import BackendReport
from quarterdeck.operators.grove.configuration import load_configuration
from quarterdeck.operators.grove.controllers import SharedState
from quarterdeck.operators.grove.metrics import GroveMetrics
from quarterdeck.operators.grove.webhooks import Authorizer, GroupGuard, LiveReader, SetGuard, TopologyGuard
from quarterdeck.runtime.contract import NoRecorder, Recorder
from quarterdeck.runtime.log import get_logger
from quarterdeck.runtime.loop.clock import LoopClock, time_now
from quarterdeck.runtime.metrics import Registry
from quarterdeck.runtime.webhook import AdmissionWebhook

__all__ = ["make_shared", "make_webhooks", "model_webhooks"]

Json = dict[str, Any]


def empty_registry() -> BackendRegistry:
    """A registry with the built-in backends, whatever is installed here."""
    return BackendRegistry(find=tuple)


async def make_shared(
    client: Client,
    config: Mapping[str, Any],
    registry: BackendRegistry | None = None,
    recorder: Recorder | None = None,
) -> SharedState:
    """What the webhooks and hooks of a configuration work with; raises what keeps it from starting."""
    chosen = registry if registry is not None else empty_registry()
    configuration = load_configuration(config, chosen)
    clock, told = LoopClock(), recorder if recorder is not None else NoRecorder()
    report = BackendReport(GroveMetrics(Registry()), told, now=lambda: time_now(clock), clock=clock.monotonic)
    backends = BackendManager(chosen, report)
    others = configuration.scheduler.profiles if configuration.scheduler is not None else ()
    await backends.initialize(
        client,
        Scheme(),
        told,
        configuration.scheduler_name,
        config=configuration.options_of(configuration.scheduler_name),
        profiles={profile.name: profile.config for profile in others},
    )
    return SharedState(configuration, backends, report)


def make_webhooks(
    shared: SharedState, client: Client, trusted: Sequence[str] = ()
) -> tuple[AdmissionWebhook, ...]:
    """All webhooks of the operator, the authorizer included."""
    reader = LiveReader(client)
    hook = HookContext(guarded_client(client, "validation"), get_logger(__name__))
    return (
        *SetGuard(shared, reader, hook).webhooks(),
        *TopologyGuard(shared).webhooks(),
        *GroupGuard(reader).webhooks(),
        *Authorizer(reader, trusted).webhooks(),
    )


async def model_webhooks(client: Client) -> tuple[AdmissionWebhook, ...]:
    """The webhooks of an operator that nobody has configured."""
    return make_webhooks(await make_shared(client, {}), client)
