"""The fields of an OperatorConfiguration, with the values they have unless set.

Upstream's document with what the scheduler framework adds. Fields about the process (client, election, ports,
log) are used by ``quarterdeck grove run``; below ``quarterdeck up`` and ``run`` the process has options of
its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from quarterdeck.api import Duration
from quarterdeck.operators.grove import names


class _Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of the document; fields that nobody knows are skipped, and logged by ``loading``."""


class ClientConnection(_Section, frozen=True):
    """How fast the operator asks."""

    qps: float = 100.0
    burst: int = 120
    content_type: str = ""
    accept_content_types: str = ""


class LeaderElection(_Section, frozen=True):
    """Which of several replicas works."""

    enabled: bool = False
    lease_duration: Duration = Duration("15s")
    renew_deadline: Duration = Duration("10s")
    retry_period: Duration = Duration("2s")
    resource_lock: str = "leases"
    resource_name: str = "grove-operator-leader-election"
    resource_namespace: str = ""


class WebhookServer(_Section, frozen=True):
    """Where webhooks are served."""

    bind_address: str = ""
    port: int = 2750
    server_cert_dir: str = "/etc/grove-operator/webhook-certs"
    secret_name: str = "grove-webhook-server-cert"
    cert_provision_mode: Literal["auto", "manual"] = "auto"


class HealthServer(_Section, frozen=True):
    """Where probes are answered."""

    bind_address: str = ""
    port: int = 2751


class MetricsServer(_Section, frozen=True):
    """Where metrics are served."""

    bind_address: str = ""
    port: int = 2752


class Servers(_Section, frozen=True):
    """What the operator serves."""

    webhooks: WebhookServer = WebhookServer()
    health_probes: HealthServer = HealthServer()
    metrics: MetricsServer = MetricsServer()


class Debugging(_Section, frozen=True):
    """Profiles are served beside the metrics, to those whom the API server allows the path."""

    enable_profiling: bool | None = None
    pprof_bind_host: str = "127.0.0.1"
    """Upstream's; there is no server of its own here, so host and port have no effect."""
    pprof_bind_port: int = 2753


class ControllerConfiguration(_Section, frozen=True):
    """How many objects a controller looks at at once."""

    concurrent_syncs: int = 10


class SmallController(ControllerConfiguration, frozen=True):
    """The same for kinds of which there are fewer."""

    concurrent_syncs: int = 5


class Controllers(_Section, frozen=True):
    """The controllers."""

    pod_clique_set: ControllerConfiguration = ControllerConfiguration()
    pod_clique: ControllerConfiguration = ControllerConfiguration()
    pod_clique_scaling_group: SmallController = SmallController()
    pod_gang: SmallController = SmallController()


class Authorizer(_Section, frozen=True):
    """Who may change what the operator has made."""

    enabled: bool = False
    exempt_service_account_user_names: tuple[str, ...] = ()


class Level(_Section, frozen=True):
    """A domain and its node label."""

    domain: str = ""
    key: str = ""


class TopologyAwareScheduling(_Section, frozen=True):
    """Whether constraints of topology are allowed, and the topology they are about."""

    enabled: bool = False
    levels: tuple[Level, ...] = ()
    """Kept as the topology ``grove-topology``; empty leaves topologies to the administrators."""


class Network(_Section, frozen=True):
    """Multi-node NVLink."""

    auto_mnnvl_enabled: bool = msgspec.field(default=False, name="autoMNNVLEnabled")


class SchedulerPlugins(_Section, frozen=True):
    """Whose code may be loaded."""

    allowed: tuple[str, ...] | None = None
    """Names of entry points; unset allows all that are installed."""


class Profile(_Section, frozen=True):
    """A backend, where there are several."""

    name: str = ""
    config: Mapping[str, Any] = {}


class SchedulerConfiguration(_Section, frozen=True):
    """Several backends at once."""

    profiles: tuple[Profile, ...] = ()
    default_profile_name: str = ""


class OperatorConfiguration(_Section, frozen=True):
    """Everything that can be set."""

    api_version: str = names.CONFIG_API_VERSION
    kind: str = names.CONFIG_KIND
    runtime_client_connection: ClientConnection = ClientConnection()
    leader_election: LeaderElection = LeaderElection()
    server: Servers = Servers()
    debugging: Debugging = Debugging()
    controllers: Controllers = Controllers()
    log_level: str = "info"
    log_format: str = "json"
    authorizer: Authorizer = Authorizer()
    topology_aware_scheduling: TopologyAwareScheduling = TopologyAwareScheduling()
    network: Network = Network()
    scheduler_name: str = ""
    scheduler_config: Mapping[str, Any] = {}
    """Options of the selected backend."""
    scheduler_plugins: SchedulerPlugins = SchedulerPlugins()
    scheduler: SchedulerConfiguration | None = None
    """Several backends; ``schedulerName`` is then the default profile."""

    @property
    def enabled_schedulers(self) -> tuple[str, ...]:
        """The backends that new sets may use."""
        if self.scheduler is None:
            return (self.scheduler_name,)
        return tuple(profile.name for profile in self.scheduler.profiles)

    def options_of(self, scheduler: str) -> Mapping[str, Any]:
        """The options of a backend; none for one that is not enabled any more."""
        for profile in self.scheduler.profiles if self.scheduler is not None else ():
            if profile.name == scheduler:
                return profile.config
        return self.scheduler_config if scheduler == self.scheduler_name else {}
