"""Operators on one manager, as `quarterdeck up` and `quarterdeck run` run them.

::

    program = Program(Config.load(), operators, ProgramOptions(webhook_url="https://127.0.0.1:9443"))
    return await program.run()

The program gives the operators one manager (so one cache), one webhook server with a certificate it looks
after, metrics and probes. What the operators declare decides what is cached, served, registered and
permitted; the program knows none of them by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from quarterdeck.api import UNSET, GroupVersionKind, Resource
from quarterdeck.api.k8s import Deployment, EndpointSlice, Service
from quarterdeck.api.label import check_dns1123_label
from quarterdeck.client import Client, Config
from quarterdeck.errors import ConfigError, Forbidden, NotFound, QuarterdeckError
from quarterdeck.runtime.cache.options import CacheOptions, KindOptions, by_namespace
from quarterdeck.runtime.certificate import (
    CertificateSource,
    EphemeralCertificates,
    FileCertificates,
    SelfSigned,
)
from quarterdeck.runtime.election import LeaderElection
from quarterdeck.runtime.health import (
    REVIEW_RULES,
    AccessReviewer,
    HealthServer,
    MetricsServer,
    is_loopback,
)
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.manager.option import ManagerOptions
from quarterdeck.runtime.metrics import RuntimeMetrics, follow_process
from quarterdeck.runtime.operator import Operator, OperatorEnvironment, OperatorWebhooks, ServedAddress
from quarterdeck.runtime.operator.install import create_namespace, install_definitions
from quarterdeck.runtime.rbac import Rule, event_rules
from quarterdeck.runtime.webhook import (
    ServiceTarget,
    UrlTarget,
    WebhookInstaller,
    WebhookOptions,
    WebhookServer,
)

_POLL: Final = 0.01
_log: Final = get_logger(__name__)

RIVAL: Final = (
    "another installation serves namespaces of this one, and each writes over what the other does: "
    "give every installation --watch-namespaces of its own"
)
_CONFIGURATIONS: Final = {True: "mutatingwebhookconfigurations", False: "validatingwebhookconfigurations"}


class ProgramOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How operators are run."""

    namespace: str = "quarterdeck-system"
    """Where the program keeps its own objects: certificate, Lease."""
    name: str = "quarterdeck"
    """Of the installation: its Deployment has this name."""
    settings: Mapping[str, Mapping[str, Any]] = {}
    """Settings of each operator, by its name."""
    account: str = ""
    """The service account that the program runs as, where that is known."""
    watch_namespaces: tuple[str, ...] = ()
    """Serve these namespaces only, so that other installations can serve others; empty serves all."""
    is_embedded: bool = False
    """The cluster is the embedded one."""
    is_in_cluster: bool = False
    """The process is a pod of the cluster, so it may be behind the Service itself."""
    installs: bool = False
    """Create the namespace and apply the operators' definitions before starting."""
    webhook_host: str = "127.0.0.1"
    webhook_port: int = 0
    webhook_url: str = ""
    """``https://host:port`` at which the API server finds the webhooks (port 0: the one that was picked);
    empty means through the Service."""
    webhook_service: str = "quarterdeck-webhook"
    webhook_service_port: int = 443
    certificate_secret: str = ""
    """Secret that keeps the certificate; ``<service>-tls`` unless given."""
    certificate_directory: str = ""
    """Serve ``tls.crt`` and ``tls.key`` of this folder, and leave registration to the operators."""
    leader_election: LeaderElection | None = None
    metrics_address: str = "0"
    health_address: str = "0"
    manager: ManagerOptions = ManagerOptions()

    def cluster_name(self, name: str) -> str:
        """An object of the whole cluster: of several installations, each has its own."""
        return f"{name}.{self.namespace}.{self.name}" if self.watch_namespaces else name


class Program:
    """Some operators, ready to run; ``manager`` may be given more runnables before that."""

    def __init__(
        self, target: Config | Client, operators: Sequence[Operator], options: ProgramOptions | None = None
    ) -> None:
        self.options: Final = options if options is not None else ProgramOptions()
        self.operators: Final = tuple(operators)
        unknown = self.options.settings.keys() - {operator.name for operator in operators}
        if unknown:
            raise ConfigError(f"settings for operators that do not run: {', '.join(sorted(unknown))}")
        for name in self.options.watch_namespaces:
            if wrong := check_dns1123_label(name):
                raise ConfigError(f"{name!r} is no name of a namespace: {wrong[0]}")
        kinds = merge_kinds(operators)
        self.metrics: Final = RuntimeMetrics()
        self._certificates: Final = self._make_certificates()
        self.webhooks: Final = WebhookServer(
            WebhookOptions(host=self.options.webhook_host, port=self.options.webhook_port),
            certificates=self._certificates,
            metrics=self.metrics,
        )
        self.manager: Final = Manager(
            target,
            # the controllers of an embedded cluster share the cache
            cache=CacheOptions(
                by_kind=whole_kinds(kinds) if self.options.is_embedded else kinds,
                namespaces=self.options.watch_namespaces or UNSET,
            ),
            leader_election=self.options.leader_election,
            webhooks=self.webhooks,
            metrics=self.metrics,
            # kubectl sorts by the fields of the one form, upstream's operators write the other
            options=replace(self.options.manager, event_api="both"),
        )
        self.registrations: Final = tuple(part for operator in operators for part in self._set_up(operator))
        self.webhooks.bind(self.manager.client, self._publish)
        self._add_servers()
        follow_process(self.metrics.registry)
        if not self.webhooks.is_empty:
            self.manager.add_rules(*self._webhook_rules())
        if self.options.watch_namespaces:  # events about what the program itself keeps
            own = event_rules(self.manager.options.event_api)
            self.manager.add_rules(*(replace(rule, namespace=self.options.namespace) for rule in own))

    def _make_certificates(self) -> CertificateSource:
        options = self.options
        if options.certificate_directory:
            return FileCertificates(options.certificate_directory, metrics=self.metrics)
        names = ("localhost", "127.0.0.1") if options.webhook_url else ()
        return SelfSigned(
            options.webhook_service,
            options.namespace,
            secret=options.certificate_secret,
            dns_names=names,
        )

    def _set_up(self, operator: Operator) -> tuple[OperatorWebhooks, ...]:
        environment = OperatorEnvironment(
            name=operator.name,
            settings=self.options.settings.get(operator.name, {}),
            namespace=self.options.namespace,
            account=self.options.account,
            watch_namespaces=self.options.watch_namespaces,
            companions=frozenset(each.name for each in self.operators) - {operator.name},
            is_embedded=self.options.is_embedded,
            server=self._served_address,
            registers_webhooks=not self.options.certificate_directory,
        )
        webhooks = operator.setup(self.manager, environment)
        if self.options.watch_namespaces and not webhooks.can_be_limited:
            raise ConfigError(f"operator {operator.name} serves whole clusters, not single namespaces")
        naming = self.options.cluster_name
        parts = tuple(
            replace(part, configuration=naming(part.configuration)) if part.configuration else part
            for part in (webhooks, *webhooks.others)
        )
        for part in parts:
            self.manager.add_webhook(*part.admission)
            for path, handler in part.folders.items():
                self.webhooks.register_folder(path, handler)
        return parts

    def _add_servers(self) -> None:
        health = HealthServer(self.options.health_address)
        for webhooks in self.registrations:
            health.readiness.add_all(webhooks.checks)
            for path, handler in webhooks.open_endpoints.items():
                health.add(path, handler)
        for server in (health, self._make_metrics_server()):
            if server.is_enabled:
                self.manager.add(server)

    def _make_metrics_server(self) -> MetricsServer:
        """Metrics and the endpoints of operators: beyond this machine with TLS, and for callers with a right.

        On loopback, metrics are for everybody and in the clear; endpoints still ask for a token.
        """
        options, registry = self.options, self.metrics.registry
        endpoints = [pair for each in self.registrations for pair in each.endpoints.items()]
        reviewer = AccessReviewer(self.manager.client)
        is_local = is_loopback(options.metrics_address)
        if is_local:
            server = MetricsServer(registry, options.metrics_address)
        else:
            server = MetricsServer(
                registry, options.metrics_address, certificates=EphemeralCertificates(), reviewer=reviewer
            )
        for path, handler in endpoints:
            server.add(path, reviewer.guard(handler) if is_local else handler)
        if server.is_enabled and (endpoints or not is_local):
            self.manager.add_rules(*REVIEW_RULES)
        return server

    def _target(self) -> ServiceTarget | UrlTarget:
        options = self.options
        if not options.webhook_url:
            return ServiceTarget(options.webhook_service, options.namespace, options.webhook_service_port)
        url = options.webhook_url
        return UrlTarget(f"{url.removesuffix(':0')}:{self.webhooks.port}" if url.endswith(":0") else url)

    def _served_address(self) -> ServedAddress:
        target, certificates = self._target(), self._certificates
        if isinstance(target, UrlTarget):
            url = target.url
        else:
            url = f"https://{target.service}.{target.namespace}.svc:{target.port}"
        if isinstance(certificates, SelfSigned):
            return ServedAddress(url, certificates.bundle.decode())
        authority = Path(self.options.certificate_directory, "ca.crt")
        return ServedAddress(url, authority.read_text() if authority.is_file() else "")

    def installers(self) -> list[WebhookInstaller]:
        """What registers each operator's webhooks."""
        return [
            WebhookInstaller(
                self.manager.client,
                webhooks.configuration,
                self._target(),
                webhooks=webhooks.admission,
                definitions=webhooks.converted,
                namespaces=self.options.watch_namespaces,
            )
            for webhooks in self.registrations
            if webhooks.configuration
        ]

    async def _publish(self, bundle: bytes) -> bool:
        await _until(lambda: self.webhooks.port != 0)  # it is part of what is registered
        is_done = all([await install(bundle) for install in self.installers()])
        for rival in await self.rivals():
            _log.warning(RIVAL, configuration=rival)
        return is_done

    async def rivals(self) -> list[str]:
        """Webhook configurations by which another installation serves namespaces of this one."""
        try:
            return [rival for install in self.installers() for rival in await install.rivals()]
        except Forbidden:
            return []  # roles from before

    def _webhook_rules(self) -> tuple[Rule, ...]:
        read = tuple(rule for webhooks in self.registrations for rule in webhooks.rules)
        if self.options.certificate_directory:
            return read
        hooks = [hook for webhooks in self.registrations for hook in webhooks.admission]
        registration = Rule(
            groups=("admissionregistration.k8s.io",),
            resources=tuple(sorted({_CONFIGURATIONS[hook.is_mutating] for hook in hooks})),
            verbs=("create", "get", "list", "patch"),
            is_cluster_wide=True,
        )
        withdrawal = Rule(
            groups=registration.groups,
            resources=registration.resources,
            verbs=("delete",),
            resource_names=tuple(part.configuration for part in self.registrations if part.configuration),
            is_cluster_wide=True,
        )
        deployment = Rule(
            groups=("apps",),
            resources=("deployments",),
            verbs=("get",),
            resource_names=(self.options.name,),
            namespace=self.options.namespace,
        )
        converted = tuple(name for webhooks in self.registrations for name in webhooks.converted)
        definition = Rule(
            groups=("apiextensions.k8s.io",),
            resources=("customresourcedefinitions",),
            verbs=("get", "patch"),
            resource_names=converted,
            is_cluster_wide=True,
        )
        secret = Rule(
            groups=("",),
            resources=("secrets",),
            verbs=("create", "get", "update", "watch"),
            namespace=self.options.namespace,
        )
        return (*read, registration, withdrawal, deployment, secret, *((definition,) if converted else ()))

    @property
    def not_ready(self) -> str:
        """Why the program cannot do its work yet; empty once it can."""
        if not self.manager.is_started:
            return "the controllers have not started"
        checks = self.manager.checks
        if reason := checks.unsynced() or checks.blocked():
            return reason
        for check in (each for part in self.registrations for each in part.checks.values()):
            answer = check()
            if isinstance(answer, str) and answer:
                return answer
        # Filled caches are not all: IPAM also lists a million Subnets from the server before it allocates.
        each = [controller.statistics() for controller in self.manager.controllers]
        if self.manager.is_leading and (late := [one.name for one in each if not one.is_synced]):
            return f"controllers that have not seen everything yet: {', '.join(late)}"
        if isinstance(self._certificates, SelfSigned) and not self.webhooks.is_empty:
            return "" if self._certificates.is_published else "the webhooks are not registered"
        return ""

    async def wait_ready(self) -> None:
        """Wait until there is no reason left in ``not_ready``."""
        await _until(lambda: not self.not_ready)

    async def prepare(self) -> None:
        """Create what the operators stand on: namespace and definitions, if the program installs them."""
        if not self.options.installs:
            return
        client = self.manager.client
        await create_namespace(client, self.options.namespace)
        await self._refuse_unreachable_webhooks()
        await install_definitions(client, *(d for each in self.operators for d in each.definitions()))

    @property
    def _registers_webhooks(self) -> bool:
        return not self.options.certificate_directory and any(part.admission for part in self.registrations)

    async def _refuse_unreachable_webhooks(self) -> None:
        """Raises ``ConfigError`` where webhooks would be registered that the API server cannot reach."""
        options = self.options
        if options.webhook_url or options.is_embedded or not self._registers_webhooks:
            return
        client, service = self.manager.client, f"Service {options.namespace}/{options.webhook_service}"
        lacking = ""
        try:
            await client.get(Service, options.webhook_service, options.namespace)
            if not options.is_in_cluster:
                label = f"kubernetes.io/service-name={options.webhook_service}"
                slices = await client.list(EndpointSlice, namespace=options.namespace, labels=label)
                if not any(end.addresses for each in slices.items for end in each.endpoints):
                    lacking = f"nothing is behind {service}, and this process is outside of the cluster"
        except NotFound:
            lacking = f"there is no {service}"
        except Forbidden:
            return
        if lacking:
            raise ConfigError(
                f"{lacking}: the API server could not reach the webhooks, and would refuse every object that "
                "they check; apply `quarterdeck manifests`, or name an address with --webhook-url "
                "https://HOST:PORT"
            )

    async def withdraw(self) -> None:
        """Take the webhooks away if nobody will answer them: at an orderly end of the last replica.

        The address of a URL is this process. Behind a Service there may be others: the webhooks go if the
        Deployment is gone, is going, or wants no replicas, and stay through updates and evictions.
        """
        if self.options.is_embedded or not self._registers_webhooks:
            return
        try:
            if self.options.webhook_url or await self._is_last():
                for install in self.installers():
                    await install.withdraw()
        except (QuarterdeckError, TimeoutError) as error:
            _log.warning("the webhooks stay registered; quarterdeck uninstall takes them away", error)

    async def _is_last(self) -> bool:
        try:
            found = await self.manager.client.get(Deployment, self.options.name, self.options.namespace)
        except NotFound:
            return True
        return found.metadata.is_deleting or found.spec.replicas == 0

    async def serve(self) -> None:
        """Run until asked to stop; raises what stopped it."""
        async with self.manager:
            await self.prepare()
            await self.manager.serve()

    async def run(self) -> int:
        """``serve`` with signal handlers; returns the exit code."""
        async with self.manager:
            try:
                await self.prepare()
            except QuarterdeckError as error:
                _log.error("cannot prepare the cluster", error, trace=False)
                return 1
            code = await self.manager.run()
            await self.withdraw()
            return code


def merge_kinds(operators: Sequence[Operator]) -> dict[type[Resource] | GroupVersionKind, KindOptions]:
    """What the operators together need of each kind. Namespaces add up; other differences are errors."""
    merged: dict[type[Resource] | GroupVersionKind, KindOptions] = {}
    for operator in operators:
        for kind, wanted in operator.cached_kinds().items():
            known = merged.setdefault(kind, wanted)
            if known == wanted:
                continue
            ours, theirs = by_namespace(known.namespaces), by_namespace(wanted.namespaces)
            alike = all(ours[name] == theirs[name] for name in ours.keys() & theirs.keys())
            if not ours or not theirs or not alike:
                raise ConfigError(f"operator {operator.name} caches {kind.__name__} unlike another operator")
            merged[kind] = KindOptions(namespaces=dict(sorted({**ours, **theirs}.items())))
    return merged


def whole_kinds(
    kinds: Mapping[type[Resource] | GroupVersionKind, KindOptions],
) -> dict[type[Resource] | GroupVersionKind, KindOptions]:
    """The same kinds kept in the same way, but all objects of them with all their fields.

    Where the controllers of a cluster share the cache, an operator does not decide what they see.
    """
    everything: dict[str, Any] = {
        "namespaces": UNSET,
        "labels": UNSET,
        "fields": UNSET,
        "transform": UNSET,
    }
    return {kind: replace(options, **everything) for kind, options in kinds.items()}


async def _until(holds: Callable[[], bool]) -> None:
    """Wait for a state that nobody signals."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(_POLL)
