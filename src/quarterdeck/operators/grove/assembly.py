"""The operator put together: what ``quarterdeck up``, ``run`` and ``manifests`` know of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from quarterdeck.api import Resource
from quarterdeck.api.k8s import HorizontalPodAutoscaler, Role, RoleBinding, Service, ServiceAccount
from quarterdeck.errors import ConfigError
from quarterdeck.runtime.cache import KindOptions
from quarterdeck.runtime.health.profile import PROFILE_PATH, serve_profile
from quarterdeck.runtime.log import get_logger
from quarterdeck.runtime.loop.clock import LoopClock, time_now
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.metrics import Registry, RuntimeMetrics
from quarterdeck.runtime.operator import Operator, OperatorEnvironment, OperatorWebhooks
from quarterdeck.runtime.rbac import Rule, event_rules
from quarterdeck.wire.http import Handler, Request, Response

from . import names
from .backends.contract import HookContext
from .backends.guard import guarded_client
from .backends.manager import BackendManager
from .backends.registry import BackendRegistry, default_registry
from .backends.report import BackendReport
from .configuration import OperatorConfiguration, load_configuration
from .configwatch import ConfigurationWatch
from .controllers import (
    Keeper,
    OperatorStatus,
    SharedState,
    Startup,
    backend_controller,
    clique_controller,
    group_controller,
    set_controller,
    topology_controller,
)
from .initc.simulated import StartupGate
from .metrics import GroveMetrics
from .types import definitions
from .webhooks import Authorizer, GroupGuard, LiveReader, SetGuard, SyncedReader, TopologyGuard

_EMBEDDED_IMAGE: Final = "quarterdeck/grove-initc"
"""What simulated pods say they run."""
_KAI: Final = "kai"
_LEVELS: Final = [
    {"domain": "zone", "key": "topology.kubernetes.io/zone"},
    {"domain": "host", "key": "kubernetes.io/hostname"},
]
_OURS: Final = KindOptions(labels={names.MANAGED_BY: names.OPERATOR})


class GroveOperator:
    """PodCliqueSets."""

    name: Final = "grove"

    def __init__(
        self,
        registry: BackendRegistry = default_registry,
        environ: Mapping[str, str] | None = None,
        watch: ConfigurationWatch | None = None,
    ) -> None:
        """``registry`` knows the backends, ``environ`` is the environment of the process.

        ``watch`` looks at the file that the settings come from, if they come from a file of their own.
        """
        self._registry: Final = registry
        self._environ: Final = environ if environ is not None else os.environ
        self._watch: Final = watch

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """The five definitions."""
        return definitions()

    def cached_kinds(self) -> Mapping[type[Resource], KindOptions]:
        """Of kinds that everybody has, only what this operator has made."""
        kinds: Sequence[type[Resource]] = (
            Service,
            ServiceAccount,
            Role,
            RoleBinding,
            HorizontalPodAutoscaler,
        )
        return dict.fromkeys(kinds, _OURS)

    def setup(self, manager: Manager, environment: OperatorEnvironment) -> OperatorWebhooks:
        """Add the start of the backends, controllers and webhooks."""
        try:
            settings = _with_companions(environment)
            configuration = load_configuration(settings, self._registry, refuses_unknown=True)
        except ConfigError as error:
            raise ConfigError(f"operators.{environment.name}: {error}") from error
        is_limited = bool(environment.watch_namespaces)
        if is_limited and configuration.topology_aware_scheduling.levels:
            raise ConfigError(
                f"operators.{environment.name}: topologyAwareScheduling.levels make "
                f"{names.DEFAULT_TOPOLOGY}, one for the whole cluster: with single namespaces to serve, "
                "create a ClusterTopologyBinding with the label "
                f"{names.INSTALLATION}: {environment.namespace}"
            )
        measured, clock = manager.metrics, LoopClock()
        registry = measured.registry if isinstance(measured, RuntimeMetrics) else Registry()
        recorder = manager.recorder(names.OPERATOR)
        report = BackendReport(
            GroveMetrics(registry), recorder, now=lambda: time_now(clock), clock=clock.monotonic
        )
        status = OperatorStatus(manager.client, environment.namespace, report, recorder)
        # Without an election there is nobody else who could write.
        is_leading = manager.elector is None
        shared = SharedState(
            configuration,
            BackendManager(self._registry, report, is_leading=is_leading, recall=status.read),
            report,
            init_image=self._init_image(is_embedded=environment.is_embedded),
            watch_namespaces=environment.watch_namespaces,
            namespace=environment.namespace,
        )
        keeper = Keeper(shared, manager.client, status)
        startup = Startup(shared, manager.client, keeper, recorder)
        manager.add(startup)
        manager.add(keeper)
        if self._watch is not None:
            self._watch.apply_with(startup.switch)
            manager.add(self._watch)
        manager.add(set_controller(shared))
        manager.add(group_controller(shared, recorder))
        manager.add(clique_controller(shared))
        manager.add(backend_controller(shared))
        if shared.has_topology:
            manager.add(topology_controller(shared))
        live = LiveReader(manager.api_reader)
        reader = SyncedReader(manager.cache, live)
        hook = HookContext(
            guarded_client(manager.client, "validation"), get_logger("quarterdeck.operators.grove")
        )
        defaulting, validating = SetGuard(shared, reader, hook).webhooks()
        others = {
            names.VALIDATING_CONFIGURATION: (validating,),
            names.TOPOLOGY_CONFIGURATION: TopologyGuard(shared).webhooks(),
            names.GROUP_CONFIGURATION: GroupGuard(reader).webhooks(),
        }
        if configuration.authorizer.enabled:
            authorizer = Authorizer(reader, self._trusted(configuration, environment))
            others[names.AUTHORIZER_CONFIGURATION] = authorizer.webhooks()
        return OperatorWebhooks(
            configuration=names.DEFAULTING_CONFIGURATION,
            admission=(defaulting,),
            others=tuple(
                OperatorWebhooks(configuration=name, admission=hooks) for name, hooks in others.items()
            ),
            rules=self._rules(environment.namespace, is_limited=is_limited),
            keeps=(("v1", "ConfigMap", names.STATUS_CONFIG_MAP, environment.namespace),),
            endpoints={PROFILE_PATH: serve_profile} if configuration.debugging.enable_profiling else {},
            open_endpoints={names.STATUS_PATH: _status_handler(status)},
            variables=self._variables(environment),
            init_gate=StartupGate(manager.cache),
            checks={"scheduler-backend": startup.check},
            can_be_limited=True,
        )

    def _init_image(self, *, is_embedded: bool) -> str:
        image = self._environ.get(names.INIT_IMAGE_ENV) or (_EMBEDDED_IMAGE if is_embedded else "")
        return f"{image}:{version('quarterdeck')}" if image else ""

    def _account(self, environment: OperatorEnvironment) -> str:
        return self._environ.get(names.ACCOUNT_ENV) or environment.account

    def _variables(self, environment: OperatorEnvironment) -> dict[str, str]:
        """What was found in the environment, or would be."""
        image = self._environ.get(names.INIT_IMAGE_ENV, "")
        found = {names.ACCOUNT_ENV: self._account(environment), names.INIT_IMAGE_ENV: image}
        return {name: value for name, value in found.items() if value}

    def _trusted(
        self, configuration: OperatorConfiguration, environment: OperatorEnvironment
    ) -> tuple[str, ...]:
        account = self._account(environment)
        if not account:
            raise ConfigError(
                f'can not register authorizer webhook with no "{names.ACCOUNT_ENV}" environment variable'
            )
        own = f"system:serviceaccount:{environment.namespace}:{account}"
        return (own, *configuration.authorizer.exempt_service_account_user_names)

    @staticmethod
    def _rules(namespace: str, *, is_limited: bool) -> tuple[Rule, ...]:
        kept = () if is_limited else ("create", "delete", "patch")
        return (
            Rule(
                groups=(names.GROUP,),
                resources=("clustertopologybindings",),
                verbs=("get", *kept),
                is_cluster_wide=True,
            ),
            Rule(groups=(names.GROUP,), resources=("podcliquesets",), verbs=("get",)),
            Rule(groups=(names.GROUP,), resources=("podcliquescalinggroups",), verbs=("get",)),
            Rule(groups=(names.SCHEDULER_GROUP,), resources=("podgangs",), verbs=("list",)),
            Rule(
                groups=("",),
                resources=("configmaps",),
                verbs=("create", "get", "patch"),
                namespace=namespace,
            ),
            # of topologies, which have no namespace
            *(replace(rule, namespace="default") for rule in event_rules("both") if is_limited),
        )


def _with_companions(environment: OperatorEnvironment) -> Mapping[str, Any]:
    """The settings, and what goes without saying on a cluster of ours where the gang scheduler runs, too."""
    settings = environment.settings
    if not environment.is_embedded or _KAI not in environment.companions:
        return settings
    usual: dict[str, Any] = {}
    if not {"scheduler", "schedulerName"} & settings.keys():
        usual["scheduler"] = {"profiles": [{"name": names.DEFAULT_SCHEDULER}, {"name": names.KAI_SCHEDULER}]}
    if not environment.watch_namespaces:
        usual["topologyAwareScheduling"] = {"enabled": True, "levels": _LEVELS}
    return {**usual, **settings}


def _status_handler(status: OperatorStatus) -> Handler:
    def handle(request: Request) -> Response:
        return Response(200, msgspec.json.encode(status.document()))

    return handle


def operator() -> Operator:
    """For the entry point."""
    return GroveOperator()
