"""A test kit for those who write a backend: does it keep to the contract?

    problems = await conformance_problems(MyBackend, client, scheduler_name="my-scheduler")
    assert not problems, "\\n".join(problems)

``client`` talks to a cluster that serves Grove's kinds and those of the backend (``quarterdeck.testing`` has
one that starts in milliseconds). The kit makes a PodCliqueSet and a PodGang of its own and removes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.api import ObjectMeta, Scheme, set_controller_reference
from quarterdeck.api.k8s import Container, Pod, PodSchedulingGate, PodSpec
from quarterdeck.client import Call, Client, Response
from quarterdeck.client.call import Interceptor, Proceed, Verb
from quarterdeck.errors import InternalError, ignore_not_found
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic.label import component_labels, managed_labels
from quarterdeck.operators.grove.types import (
    CliqueTemplate,
    GangGroup,
    PodCliqueSet,
    PodCliqueSetSpec,
    PodCliqueSetTemplate,
    PodCliqueSpec,
    PodGang,
    PodGangSpec,
)
from quarterdeck.runtime.contract import NoRecorder
from quarterdeck.runtime.log import get_logger

from .contract import BackendFactory, HookContext, SchedulerBackend
from .guard import awaited, guarded_client, prepared

_NAME: Final = "conformance"
_WRITES: Final[tuple[Verb, ...]] = ("create", "update", "patch", "apply", "delete", "deletecollection")


def sample_set(namespace: str = "default") -> PodCliqueSet:
    """The set that the kit's gang belongs to; add what your backend asks of one."""
    pods = PodSpec(containers=(Container(name="main", image="example.com/main:1"),))
    clique = CliqueTemplate(
        name="a", spec=PodCliqueSpec(role_name="a", replicas=2, min_available=1, pod_spec=pods)
    )
    template = PodCliqueSetTemplate(cliques=(clique,), clique_startup_type=names.ANY_ORDER)
    metadata = ObjectMeta(name=_NAME, namespace=namespace)
    return PodCliqueSet(metadata=metadata, spec=PodCliqueSetSpec(template=template))


def sample_pod(namespace: str = "default") -> Pod:
    """A pod as backends get to see it."""
    metadata = ObjectMeta(
        generate_name=f"{_NAME}-0-a-",
        namespace=namespace,
        labels={
            **managed_labels(_NAME),
            names.PODGANG: f"{_NAME}-0",
            names.PODCLIQUE: f"{_NAME}-0-a",
            names.POD_INDEX: "0",
        },
    )
    spec = PodSpec(
        containers=(Container(name="main", image="example.com/main:1"),),
        scheduling_gates=(PodSchedulingGate(name=names.GATE),),
    )
    return Pod(metadata=metadata, spec=spec)


async def conformance_problems(
    factory: BackendFactory,
    client: Client,
    *,
    scheduler_name: str,
    config: Mapping[str, Any] | None = None,
    pod_clique_set: PodCliqueSet | None = None,
) -> list[str]:
    """What a backend does that it may not, in words; nothing if it conforms."""
    kit = _Kit(factory, client, scheduler_name, config or {})
    pcs = await client.create(pod_clique_set if pod_clique_set is not None else sample_set())
    try:
        return await kit.run(pcs)
    finally:
        with ignore_not_found():
            await client.delete(pcs)


class _Kit:
    def __init__(
        self, factory: BackendFactory, client: Client, scheduler_name: str, config: Mapping[str, Any]
    ) -> None:
        self._factory: Final = factory
        self._client: Final = client
        self._scheduler: Final = scheduler_name
        self._config: Final = config
        self._writes = 0
        self._refuses = False

    async def run(self, pcs: PodCliqueSet) -> list[str]:
        client = self._counting()
        backend = self._factory(client, Scheme(), NoRecorder(), self._scheduler, self._config)
        problems = [] if backend.name else ["name is empty"]
        await awaited(backend.init())
        problems += self._check_pods(backend, pcs.metadata.namespace)
        gang, fresh = [await self._client.create(_gang(pcs, index)) for index in range(2)]
        hook = HookContext(guarded_client(client, backend.name), get_logger(__name__))
        try:
            problems += await self._check_gangs(backend, hook, gang, fresh)
        finally:
            for each in (gang, fresh):
                with ignore_not_found():
                    await self._client.delete(each)
        return problems

    def _counting(self) -> Client:
        """The client of the backend: its writes are counted, and refused when it is time to."""

        async def write(call: Call, proceed: Proceed) -> Response:
            if self._refuses:
                raise InternalError("refused by the conformance kit")
            self._writes += 1
            return await self._client.send(call)

        async def read(call: Call, proceed: Proceed) -> Response:
            return await self._client.send(call)

        interceptors: dict[Verb, Interceptor] = dict.fromkeys(_WRITES, write)
        interceptors |= {"get": read, "list": read}
        client = self._client
        return Client(
            client.rest,
            scheme=client.scheme,
            mapper=client.mapper,
            interceptors=interceptors,
            stream_interceptor=lambda call, proceed: client.open(call),
        )

    def _check_pods(self, backend: SchedulerBackend, namespace: str) -> list[str]:
        pod = sample_pod(namespace)
        try:
            once = prepared(backend, pod)
            twice = prepared(backend, once)
        except Exception as error:  # noqa: BLE001  code of others: whatever it raises is the finding
            return [f"prepare_pod: {error}"]
        return [] if once == twice else ["prepare_pod: a pod that was prepared changes when prepared again"]

    async def _check_gangs(
        self, backend: SchedulerBackend, hook: HookContext, gang: PodGang, fresh: PodGang
    ) -> list[str]:
        problems: list[str] = []
        await awaited(backend.sync_pod_gang(hook, gang))
        makes_something = self._writes > 0
        again = await self._read(gang)
        self._writes = 0
        await awaited(backend.sync_pod_gang(hook, again))
        if self._writes:
            problems.append(f"sync_pod_gang: {self._writes} writes for a gang that has not changed")
        seen = await self._read(gang)
        if (seen.spec, seen.status) != (gang.spec, gang.status):
            problems.append("sync_pod_gang: spec or status of the PodGang changed")
        await awaited(backend.on_pod_gang_delete(hook, seen))
        try:
            await awaited(backend.on_pod_gang_delete(hook, seen))
        except Exception as error:  # noqa: BLE001  code of others: whatever it raises is the finding
            problems.append(f"on_pod_gang_delete: fails if everything is gone already: {error}")
        if makes_something and not await self._propagates(backend, hook, fresh):
            problems.append("sync_pod_gang: an error of the API server is swallowed")
        await awaited(backend.on_pod_gang_delete(hook, fresh))
        return problems

    async def _propagates(self, backend: SchedulerBackend, hook: HookContext, gang: PodGang) -> bool:
        self._refuses = True
        try:
            await awaited(backend.sync_pod_gang(hook, gang))
        except Exception:  # noqa: BLE001  which one is up to the backend
            return True
        finally:
            self._refuses = False
        return False

    async def _read(self, gang: PodGang) -> PodGang:
        return await self._client.get(PodGang, gang.metadata.name, gang.metadata.namespace)


def _gang(pcs: PodCliqueSet, index: int) -> PodGang:
    metadata = ObjectMeta(
        name=f"{_NAME}-{index}",
        namespace=pcs.metadata.namespace,
        labels=component_labels(pcs.metadata.name, names.PODGANG_COMPONENT),
    )
    groups = (GangGroup(name=f"{_NAME}-{index}-a", min_replicas=1),)
    return PodGang(metadata=set_controller_reference(pcs, metadata), spec=PodGangSpec(podgroups=groups))
