"""The operator as a program of its own: one configuration file, and exit codes that say what failed.

``quarterdeck grove run`` is this; SIGHUP makes it look at its file and for backends again.
``quarterdeck up`` and ``run`` run the operator beside others.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Final

import msgspec

from quarterdeck.client import Config
from quarterdeck.errors import ConfigError, QuarterdeckError
from quarterdeck.runtime.election import LeaderElection
from quarterdeck.runtime.manager.stopsignal import stop_on_signals
from quarterdeck.runtime.operator.program import Program, ProgramOptions

from .assembly import GroveOperator
from .backends.registry import default_registry
from .configuration import OperatorConfiguration, load_file
from .configuration.loading import effective_document
from .configwatch import ConfigurationWatch
from .controllers.preflight import StartError

BAD_CONFIGURATION: Final = 2
MANAGER_FAILED: Final = 4
RUN_FAILED: Final = 6
"""3 is the topology, 5 a backend, 7 multi-node NVLink: see ``controllers.startup``."""


def exit_code_of(error: Exception) -> int:
    """What the process says about an error that ended it."""
    if isinstance(error, StartError):
        return error.exit_code
    return BAD_CONFIGURATION if isinstance(error, ConfigError) else RUN_FAILED


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says beyond the configuration file."""

    config: Path
    kubeconfig: str = ""
    context: str = ""
    namespace: str = "grove-system"
    """Where the operator keeps its own objects."""
    watch_namespaces: tuple[str, ...] = ()
    """Serve these only; empty serves all."""
    webhook_url: str = ""
    """``https://host:port`` at which the API server finds the webhooks, instead of through the Service."""
    installs: bool = False
    """Create the namespace and apply the definitions before starting."""


class GroveProgram:
    """One run of the operator."""

    def __init__(self, options: RunOptions) -> None:
        self._options: Final = options

    def load(self) -> OperatorConfiguration:
        """The configuration file; raises ``ConfigError``."""
        return load_file(self._options.config, default_registry)

    async def run(self, configuration: OperatorConfiguration) -> int:
        """Run until a signal comes; returns the exit code of the process."""
        watch = ConfigurationWatch(self._options.config, default_registry)
        try:
            program = self.make(configuration, watch)
        except ConfigError as error:
            return _failed(error, MANAGER_FAILED)
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, watch.request_reload)
        with stop_on_signals(program.manager.request_stop):
            try:
                await program.serve()
            except QuarterdeckError as error:
                return _failed(error, exit_code_of(error))
        return 0

    def make(self, configuration: OperatorConfiguration, watch: ConfigurationWatch | None = None) -> Program:
        """What would run; raises ``ConfigError``."""
        options, server = self._options, configuration.server
        election = configuration.leader_election
        manual = server.webhooks.cert_provision_mode == "manual"
        connection = configuration.runtime_client_connection
        config = Config.load(options.kubeconfig, context=options.context)
        return Program(
            config.evolve(qps=connection.qps, burst=connection.burst),
            [GroveOperator(watch=watch)],
            ProgramOptions(
                namespace=options.namespace,
                watch_namespaces=options.watch_namespaces,
                settings={"grove": effective_document(configuration)},
                installs=options.installs,
                webhook_host=server.webhooks.bind_address or "0.0.0.0",  # noqa: S104  a container's address
                webhook_port=server.webhooks.port,
                webhook_url=options.webhook_url,
                webhook_service="grove-operator",
                webhook_service_port=server.webhooks.port,  # as the Service of upstream's chart has it
                certificate_secret=server.webhooks.secret_name,
                certificate_directory=server.webhooks.server_cert_dir if manual else "",
                leader_election=LeaderElection(
                    name=election.resource_name,
                    namespace=election.resource_namespace or options.namespace,
                    lease_duration=election.lease_duration.seconds,
                    renew_deadline=election.renew_deadline.seconds,
                    retry_period=election.retry_period.seconds,
                )
                if election.enabled
                else None,
                metrics_address=f"{server.metrics.bind_address}:{server.metrics.port}",
                health_address=f"{server.health_probes.bind_address}:{server.health_probes.port}",
            ),
        )


def _failed(error: Exception, code: int) -> int:
    print(f"grove: {error}", file=sys.stderr, flush=True)
    return code
