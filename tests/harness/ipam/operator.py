"""The ipam operator of one case, in a thread of its own: started, settled, stopped, killed."""

from __future__ import annotations

import asyncio
import http.client
import re
import tempfile
import threading
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from quarterdeck.api.k8s.admissionregistration import ValidatingWebhookConfiguration
from quarterdeck.client import Client, Config
from quarterdeck.operators.ipam.assembly import IpamOperator
from quarterdeck.runtime.cache import CacheOptions
from quarterdeck.runtime.certificate import FileCertificates
from quarterdeck.runtime.health import MetricsServer
from quarterdeck.runtime.manager.manager import Manager, ManagerOptions
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.operator import OperatorEnvironment
from quarterdeck.runtime.webhook import UrlTarget, WebhookOptions, WebhookServer, webhook_configurations
from tests.harness.case import CaseFailure
from tests.harness.hook import _certificates

from .transport import CaseTransport, Fault, JumpingLoop

Json = dict[str, Any]
T = TypeVar("T")

START_TIMEOUT: Final = 30.0
QUIET: Final = 0.5
"""Seconds without a write that count as settled."""
SOON: Final = 5.0
"""Delayed work that is due within this time is waited for."""
RESOURCES: Final = {
    "SubnetPool": "subnetpools",
    "Subnet": "subnets",
    "SubnetClaim": "subnetclaims",
    "SubnetPoolClaim": "subnetpoolclaims",
}
_SAMPLE: Final = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')

Sample = tuple[str, dict[str, str], float]


class OperatorThread:
    """One life of the operator: a manager, a metrics server, and the admission hook if wanted."""

    def __init__(
        self,
        kubeconfig: Path,
        namespaces: Sequence[str],
        faults: list[Fault],
        *,
        with_hook: bool = False,
    ) -> None:
        self._kubeconfig: Final = kubeconfig
        self._namespaces: Final = tuple(namespaces)
        self._faults: Final = faults
        self._with_hook: Final = with_hook
        self._ready: Final = threading.Event()
        self._error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._manager: Manager | None = None
        self._transport: CaseTransport | None = None
        self._main: asyncio.Task[None] | None = None
        self._port = 0
        self.hook: Json | None = None
        """The configuration that registers the hook."""
        self._thread: Final = threading.Thread(target=self._run, name="ipam-operator", daemon=True)
        self._thread.start()
        self._ready.wait(START_TIMEOUT)
        if self._error is not None or not self._ready.is_set():
            raise RuntimeError(f"the operator did not start: {self._error}")

    # -- from the thread of the case ------------------------------------------------------------------

    def settle(self, limit: float) -> None:
        """Wait until nothing is left to do and nothing was written for a while."""
        self._call(self._settle(limit), limit + START_TIMEOUT)

    def crash_after_create(self, kind: str) -> None:
        """Die right after the next create of a kind."""
        assert self._transport is not None
        self._transport.crash_after = RESOURCES.get(kind, f"{kind.lower()}s")

    def wait_crashed(self, limit: float = 60.0) -> None:
        """Wait for that, and clear away."""
        assert self._transport is not None
        self._call(self._transport.crashed.wait(), limit)
        self.kill()

    def kill(self) -> None:
        """End without any clean-up: from here on nothing gets through."""
        assert self._transport is not None
        assert self._loop is not None
        assert self._main is not None
        self._transport.cut()
        self._loop.call_soon_threadsafe(self._main.cancel)
        self._thread.join(START_TIMEOUT)

    def stop(self) -> None:
        """End in order."""
        assert self._manager is not None
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._manager.request_stop)
        self._thread.join(START_TIMEOUT)
        if self._thread.is_alive():
            self.kill()

    def arm(self) -> None:
        """The first settle is over."""
        for fault in self._faults:
            fault.is_armed = True

    def http(self, method: str, path: str) -> tuple[int, str]:
        """A request to the operator's own endpoint."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def samples(self) -> list[Sample]:
        """What the metrics endpoint says."""
        return parse_samples(self.http("GET", "/metrics")[1])

    def _call(self, coroutine: Coroutine[Any, Any, T], limit: float) -> T:
        assert self._loop is not None
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(limit)
        except TimeoutError as error:
            future.cancel()
            raise CaseFailure(f"the operator did not come to it within {limit:g} s") from error

    # -- in the thread of the operator ----------------------------------------------------------------

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=JumpingLoop) as runner:
                runner.run(self._serve())
        except asyncio.CancelledError:
            pass
        except BaseException as error:  # noqa: BLE001 - reported by the thread that waits
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._main = asyncio.current_task()
        config = Config.load(kubeconfig=str(self._kubeconfig))
        self._transport = CaseTransport(config.transport(), self._faults)
        metrics = RuntimeMetrics()
        client = Client.over(self._transport, config=config, observer=metrics.observe_request)
        with tempfile.TemporaryDirectory(prefix="quarterdeck-ipam-") as folder:
            authority = self._write_certificates(Path(folder))
            server = WebhookServer(
                WebhookOptions(host="127.0.0.1", port=0), certificates=FileCertificates(folder)
            )
            self._manager = manager = Manager(
                client,
                cache=CacheOptions(namespaces=self._namespaces),
                webhooks=server if self._with_hook else None,
                metrics=metrics,
                options=ManagerOptions(watch_loop=False, graceful_shutdown_timeout=5.0),
            )
            served = IpamOperator().setup(manager, OperatorEnvironment(name="ipam"))
            endpoint = MetricsServer(metrics.registry, "127.0.0.1:0", extra=served.endpoints)
            manager.add(endpoint)
            if self._with_hook:
                manager.add_webhook(*served.admission)
            async with client, manager, asyncio.TaskGroup() as group:
                group.create_task(manager.serve())
                await self._wait_started(manager)
                self._port = endpoint.address[1]
                if self._with_hook:
                    url = UrlTarget(f"https://127.0.0.1:{server.port}", authority)
                    self.hook = self._hook_configuration(
                        webhook_configurations("ipam", served.admission, url)
                    )
                self._ready.set()

    @staticmethod
    def _write_certificates(folder: Path) -> bytes:
        authority, chain, key = _certificates()
        (folder / "tls.crt").write_bytes(chain)
        (folder / "tls.key").write_bytes(key)
        return authority

    def _hook_configuration(self, made: Sequence[Any]) -> Json:
        """The hook for the namespaces of this case alone."""
        configuration = next(each for each in made if isinstance(each, ValidatingWebhookConfiguration))
        document: Json = configuration.to_dict()
        document["metadata"]["name"] = self._namespaces[0]
        terms = [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(self._namespaces)}]
        for webhook in document["webhooks"]:
            webhook["namespaceSelector"] = {"matchExpressions": terms}
        return document

    @staticmethod
    async def _wait_started(manager: Manager) -> None:
        def has_started() -> bool:
            return manager.is_leading and all(each.is_synced for each in manager.statistics().controllers)

        while not has_started():  # noqa: ASYNC110  nobody signals it
            await asyncio.sleep(0.01)

    async def _settle(self, limit: float) -> None:
        assert self._manager is not None
        manager, began = self._manager, time.monotonic()
        seen, since = self._activity(), began
        while time.monotonic() - began < limit:
            await asyncio.sleep(0.02)
            soon = asyncio.get_running_loop().time() + SOON
            now = self._activity()
            if now != seen or not manager.is_idle(until=soon):
                seen, since = now, time.monotonic()
            elif time.monotonic() - since >= QUIET:
                return

    def _activity(self) -> tuple[Any, ...]:
        """Changes whenever anything is written or seen."""
        assert self._manager is not None
        assert self._transport is not None
        informers = self._manager.cache.statistics().informers
        return (self._transport.writes, *((each.objects, each.version) for each in informers))


def parse_samples(text: str) -> list[Sample]:
    """The lines of an exposition."""
    found = []
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match is not None:
            found.append((match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])))
    return found
