"""The operator put together: what ``quarterdeck up``, ``run`` and ``manifests`` know of it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from quarterdeck.api import Resource, crd
from quarterdeck.api.k8s import CustomResourceDefinition, Secret
from quarterdeck.client import Client
from quarterdeck.errors import ConfigError, NotFound
from quarterdeck.runtime.cache import ALL_NAMESPACES, KindOptions, WatchSettings
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.metrics import Registry, RuntimeMetrics
from quarterdeck.runtime.operator import Operator, OperatorEnvironment, OperatorWebhooks
from quarterdeck.runtime.operator.install import install_definitions
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.webhook import AdmissionWebhook

from . import names
from .controllers import (
    cluster_training_runtime_controller,
    train_job_controller,
    training_runtime_controller,
)
from .controllers.report import Reporter
from .jobsetkind import jobset_check
from .logic.plugins import default_framework
from .logic.plugins.progress import Progress, StatusServer
from .metrics import TrainerMetrics
from .publicconfig import RULES as PUBLIC_RULES
from .publicconfig import PublicConfig, public_references
from .settings import TrainerSettings
from .types import CoschedulingPodGroup, TrainJob, VolcanoPodGroup, definitions
from .webhooks import TrainJobGuard, runtime_webhooks, stamp_webhook
from .webhooks.progress import FOLDER, ProgressReceiver
from .webhooks.progress import RULES as PROGRESS_RULES

_READ_BY_WEBHOOKS: Final = (
    Rule(
        groups=(names.GROUP,),
        resources=("trainingruntimes", "clustertrainingruntimes"),
        verbs=("get",),
    ),
    Rule(groups=("jobset.x-k8s.io",), resources=("jobsets",), verbs=("get",)),
    Rule(groups=("",), resources=("pods",), verbs=("list",)),
    Rule(groups=("",), resources=("configmaps",), verbs=("get",)),
    Rule(groups=("scheduling.k8s.io",), resources=("priorityclasses",), verbs=("get",)),
)


class TrainerOperator:
    """TrainJobs and their runtimes."""

    name: Final = "trainer"

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """The definitions; JobSet's belongs to JobSet."""
        return definitions()

    def cached_kinds(self) -> Mapping[type[Resource], KindOptions]:
        """Of all Secrets only those with SSH keys, of which the metadata."""
        ssh_keys = WatchSettings(fields={"type": names.SSH_SECRET_TYPE})
        return {Secret: KindOptions(namespaces={ALL_NAMESPACES: ssh_keys})}

    def setup(self, manager: Manager, environment: OperatorEnvironment) -> OperatorWebhooks:
        """Add controllers and webhooks."""
        settings = environment.decode(TrainerSettings)
        measured = manager.metrics
        registry = measured.registry if isinstance(measured, RuntimeMetrics) else Registry()
        metrics = TrainerMetrics(registry)
        framework = default_framework(*_progress(settings, environment))
        reporter = Reporter(manager.recorder(names.TRAIN_JOB_COMPONENT), metrics)
        rng = random.Random()  # noqa: S311  when to look again, no secret
        manager.add(train_job_controller(framework, settings, reporter, rng))
        manager.add(training_runtime_controller(settings, manager.recorder(names.TRAINING_RUNTIME_COMPONENT)))
        manager.add(
            cluster_training_runtime_controller(
                settings, manager.recorder(names.CLUSTER_TRAINING_RUNTIME_COMPONENT)
            )
        )

        def jobs() -> Iterable[TrainJob]:
            informer = manager.cache.informer(TrainJob)
            decode = informer.decoder(TrainJob)
            return (decode(entry) for entry in informer.entries()) if informer.has_synced else ()

        metrics.follow(jobs)
        if settings.public_namespace:
            manager.add(PublicConfig(manager.client, settings.public_namespace))
            manager.add_rules(*PUBLIC_RULES)
        if environment.is_embedded:
            manager.add(MissingDefinitions(manager.client))
        return OperatorWebhooks(
            configuration=names.WEBHOOK_CONFIGURATION,
            admission=trainer_webhooks(manager.api_reader, settings),
            rules=(*_READ_BY_WEBHOOKS, *(PROGRESS_RULES if settings.progress else ())),
            checks={"trainer-jobset": jobset_check(manager)},
            keeps=public_references(settings.public_namespace) if settings.public_namespace else (),
            folders={FOLDER: ProgressReceiver(manager.client, metrics, LoopClock()).handle}
            if settings.progress
            else {},
        )


def _progress(settings: TrainerSettings, environment: OperatorEnvironment) -> Iterable[Progress]:
    """What lets trainings report; raises ``ConfigError`` where nobody could take the reports."""
    if not settings.progress:
        return ()
    server = environment.server
    if server is None:
        raise ConfigError("operators.trainer.progress: there is no webhook server that could take reports")

    def address() -> StatusServer:
        served = server()
        return StatusServer(served.url, served.ca_bundle)

    return (Progress(address),)


def trainer_webhooks(client: Client, settings: TrainerSettings) -> tuple[AdmissionWebhook, ...]:
    """What answers the API server."""
    return (
        stamp_webhook(LoopClock()),
        TrainJobGuard(client, default_framework(), keeps_runtimes=settings.runtime_snapshot).webhook(),
        *runtime_webhooks(checks_updates=settings.validate_training_runtime_updates),
    )


class MissingDefinitions:
    """Installs what gang schedulers would bring along; an embedded cluster has none of them."""

    name: Final = "trainer-definitions"
    needs_leader_election: Final = True

    def __init__(self, client: Client) -> None:
        self._client: Final = client

    async def run(self) -> None:
        """Install the definitions that are not there."""
        for kind in (CoschedulingPodGroup, VolcanoPodGroup):
            definition = crd(kind)
            name = definition["metadata"]["name"]
            try:
                await self._client.get(CustomResourceDefinition, name)
            except NotFound:
                await install_definitions(self._client, definition)


def operator() -> Operator:
    """For the entry point."""
    return TrainerOperator()
