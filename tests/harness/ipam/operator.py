"""The ipam operator of a case, in a thread of its own: started, settled, stopped, killed."""

from __future__ import annotations

import asyncio
import http.client
import re
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

from quarterdeck.api.k8s.admissionregistration import ValidatingWebhookConfiguration
from quarterdeck.client import Clock, Config, Observer
from quarterdeck.operators.ipam.assembly import IpamOperator
from quarterdeck.runtime.cache import CacheOptions
from quarterdeck.runtime.health import MetricsServer
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.manager.option import ManagerOptions
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.operator import OperatorEnvironment
from quarterdeck.runtime.webhook import UrlTarget, webhook_configurations
from quarterdeck.testing import Break, FaultPlan, FaultRule, Link, ServedWebhooks, serve_webhooks
from tests.harness.operatorthread import START_TIMEOUT, OperatorThread

from .fault import JumpingClock, JumpingLoop
from .names import RESOURCES, resource_of

Json = dict[str, Any]

QUIET: Final = 0.5
"""Seconds without a write that count as settled."""
SOON: Final = 5.0
"""Delayed work that is due within this time is waited for."""
_SAMPLE: Final = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')

Sample = tuple[str, dict[str, str], float]


class IpamThread(OperatorThread):
    """One life of the operator: a manager, a metrics server, and the admission hook if wanted."""

    def __init__(
        self,
        kubeconfig: Path,
        namespaces: Sequence[str],
        plan: FaultPlan | None = None,
        *,
        with_hook: bool = False,
    ) -> None:
        self._namespaces: Final = tuple(namespaces)
        self._with_hook: Final = with_hook
        self._metrics: Final = RuntimeMetrics()
        self._endpoint: MetricsServer | None = None
        self.hook: Json | None = None
        """The configuration that registers the hook."""
        super().__init__(kubeconfig, name="ipam", plan=plan, loop_factory=JumpingLoop)

    def make_link(
        self, config: Config, *, clock: Clock | None = None, observer: Observer | None = None
    ) -> Link:
        return super().make_link(config, clock=JumpingClock(), observer=self._metrics.observe_request)

    async def assemble(self, link: Link, stack: AsyncExitStack) -> Manager:
        manager = Manager(
            link.client,
            cache=CacheOptions(namespaces=self._namespaces),
            metrics=self._metrics,
            options=ManagerOptions(watch_loop=False, graceful_shutdown_timeout=5.0),
        )
        operator = IpamOperator().setup(manager, OperatorEnvironment(name="ipam"))
        self._endpoint = MetricsServer(self._metrics.registry, "127.0.0.1:0", extra=operator.endpoints)
        manager.add(self._endpoint)
        if self._with_hook:
            served = await stack.enter_async_context(serve_webhooks(*operator.admission))
            self.hook = self._hook_configuration(served)
        return manager

    def _hook_configuration(self, served: ServedWebhooks) -> Json:
        """The hook for the namespaces of this case alone."""
        made = webhook_configurations("ipam", served.server.webhooks, UrlTarget(served.url, served.ca_bundle))
        configuration = next(each for each in made if isinstance(each, ValidatingWebhookConfiguration))
        document: Json = configuration.to_dict()
        document["metadata"]["name"] = self._namespaces[0]
        terms = [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(self._namespaces)}]
        for webhook in document["webhooks"]:
            webhook["namespaceSelector"] = {"matchExpressions": terms}
        return document

    def settle(self, limit: float) -> tuple[Any, ...]:
        """Wait until nothing is to be done and nothing was written for a while; returns a mark of that."""
        return self.call(self._settle(limit), limit + START_TIMEOUT)

    def disturb(self, *rules: FaultRule) -> None:
        """Let further faults happen from now on."""
        self.call(self._disturb(rules), START_TIMEOUT)

    def crash_after_create(self, kind: str) -> None:
        """Die right after the next create of a kind."""
        resource = resource_of(RESOURCES.get(kind, f"{kind.lower()}s"))
        self.disturb(Break(times=1, verbs=frozenset({"create"}), resources=frozenset({resource})))

    def wait_crashed(self, limit: float = 60.0) -> None:
        """Wait for that, and clear away."""
        self.call(self._wait_cut(), limit)
        self.kill()

    def http(self, method: str, path: str) -> tuple[int, str]:
        """A request to the operator's own endpoint."""
        assert self._endpoint is not None
        connection = http.client.HTTPConnection("127.0.0.1", self._endpoint.address[1], timeout=30)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def samples(self) -> list[Sample]:
        """What the metrics endpoint says."""
        return parse_samples(self.http("GET", "/metrics")[1])

    async def _disturb(self, rules: Sequence[FaultRule]) -> None:
        self.link.plan.add(*rules)

    async def _wait_cut(self) -> None:
        while not self.link.is_cut:  # noqa: ASYNC110  nobody signals it
            await asyncio.sleep(0.01)

    async def _settle(self, limit: float) -> tuple[Any, ...]:
        began = time.monotonic()
        seen, since = self._activity(), began
        while time.monotonic() - began < limit:
            await asyncio.sleep(0.02)
            soon = asyncio.get_running_loop().time() + SOON
            now = self._activity()
            if now != seen or not self.manager.is_idle(until=soon):
                seen, since = now, time.monotonic()
            elif time.monotonic() - since >= QUIET:
                break
        return seen

    def _activity(self) -> tuple[Any, ...]:
        """Changes whenever anything is written or seen."""
        informers = self.manager.cache.statistics().informers
        return (self.link.last_write, *((each.objects, each.version) for each in informers))


def parse_samples(text: str) -> list[Sample]:
    """The lines of an exposition."""
    found = []
    for line in text.splitlines():
        match = _SAMPLE.match(line)
        if match is not None:
            found.append((match[1], dict(_LABEL.findall(match[2] or "")), float(match[3])))
    return found
