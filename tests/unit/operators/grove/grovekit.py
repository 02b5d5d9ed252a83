"""Sets, pods and other objects of tests, and an operator that runs in the test's own process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from quarterdeck.api import UNSET, Condition, GroupVersionKind, ObjectMeta, OwnerReference, Time, to_dict
from quarterdeck.api.k8s import Container, EnvVar, Pod, PodSchedulingGate, PodSpec, PodStatus
from quarterdeck.api.k8s.pod import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    PodCondition,
)
from quarterdeck.client import MergePatch, intercept
from quarterdeck.client.call import Interceptor
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.assembly import GroveOperator
from quarterdeck.operators.grove.backends import BackendRegistry
from quarterdeck.operators.grove.logic.defaulting import with_defaults
from quarterdeck.operators.grove.types import (
    CliqueTemplate,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueScalingGroupSpec,
    PodCliqueSet,
    PodCliqueSetSpec,
    PodCliqueSetTemplate,
    PodCliqueSpec,
    PodCliqueStatus,
    ScalingGroupConfig,
    definitions,
)
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.operator import OperatorEnvironment
from quarterdeck.testing import EventLog, Link, TestCluster, run_until_idle

NS = "default"
NOW = Time("2030-01-01T01:00:00Z")


def foreign_definition(
    kind: GroupVersionKind, scope: str = "Namespaced", properties: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A scheduler's own kind, which takes any fields; ``properties`` are what its spec says of some."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = {**anything, "properties": dict(properties or {})}
    schema = {"type": "object", "properties": {"spec": spec, "status": anything}}
    plural = f"{kind.kind.lower()}s"
    version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{kind.group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": kind.group,
            "scope": scope,
            "names": {"kind": kind.kind, "plural": plural},
            "versions": [version],
        },
    }


def pod_spec(image: str = "example.com/main:1", **fields: Any) -> PodSpec:
    return PodSpec(containers=(Container(name="main", image=image),), **fields)


def clique(name: str, replicas: int = 1, min_available: int | None = None, **fields: Any) -> CliqueTemplate:
    """A clique; fields of its spec and of itself may be given by name."""
    own = {key: fields.pop(key) for key in tuple(fields) if key in CliqueTemplate.__annotations__}
    spec = PodCliqueSpec(
        role_name=fields.pop("role_name", f"role-{name}"),
        replicas=replicas,
        min_available=UNSET if min_available is None else min_available,
        pod_spec=fields.pop("pod_spec", pod_spec()),
        **fields,
    )
    return CliqueTemplate(name=name, spec=spec, **own)


def group(
    name: str, cliques: Sequence[str], replicas: int = 1, least: int = 1, **fields: Any
) -> ScalingGroupConfig:
    return ScalingGroupConfig(
        name=name, clique_names=tuple(cliques), replicas=replicas, min_available=least, **fields
    )


def pcs(
    *cliques: CliqueTemplate,
    name: str = "w",
    replicas: int = 1,
    groups: Sequence[ScalingGroupConfig] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    is_complete: bool = True,
    strategy: Any = UNSET,
    **template: Any,
) -> PodCliqueSet:
    """A set, with everything filled in that webhook and schema fill in unless ``is_complete`` is false."""
    metadata = ObjectMeta(
        name=name,
        namespace=NS,
        uid=f"uid-{name}",
        generation=1,
        labels=labels or {},
        annotations=annotations or {},
    )
    made = PodCliqueSet(
        metadata=metadata,
        spec=PodCliqueSetSpec(
            replicas=replicas,
            update_strategy=strategy,
            template=PodCliqueSetTemplate(
                cliques=tuple(cliques),
                pod_clique_scaling_groups=tuple(groups),
                clique_startup_type=template.pop("clique_startup_type", names.ANY_ORDER),
                **template,
            ),
        ),
    )
    return with_defaults(made) if is_complete else made


def workload(
    mins: tuple[int, int, int] = (2, 1, 3), least: int = 2, replicas: int = 2, **fields: Any
) -> PodCliqueSet:
    """The reference workloads: a standalone clique and a group of two."""
    counts, parents = (2, 1, 3), fields.pop("after", {})
    cliques = [
        clique(f"pc-{letter}", counts[place], mins[place], starts_after=tuple(parents.get(letter, ())))
        for place, letter in enumerate("abc")
    ]
    return pcs(*cliques, groups=[group("sg-x", ["pc-b", "pc-c"], replicas, least)], **fields)


def condition(type: str, status: str, since: Time = NOW, reason: str = "Because") -> Condition:
    return Condition(type=type, status=status, reason=reason, last_transition_time=since)


def pclq(
    name: str,
    *,
    replicas: int = 1,
    least: int = 1,
    labels: Mapping[str, str] | None = None,
    created: Time = NOW,
    is_deleting: bool = False,
    conditions: Sequence[Condition] = (),
    **status: Any,
) -> PodClique:
    metadata = ObjectMeta(
        name=name,
        namespace=NS,
        uid=f"uid-{name}",
        generation=1,
        labels=labels or {},
        creation_timestamp=created,
        deletion_timestamp=NOW if is_deleting else UNSET,
    )
    return PodClique(
        metadata=metadata,
        spec=PodCliqueSpec(role_name="r", replicas=replicas, min_available=least, pod_spec=pod_spec()),
        status=PodCliqueStatus(conditions=tuple(conditions), **status),
    )


def member(group: str, index: int, name: str, *, hash: str = "h", **fields: Any) -> PodClique:
    """A PodClique of a group."""
    labels = {
        names.SCALING_GROUP: group,
        names.SCALING_GROUP_INDEX: str(index),
        names.TEMPLATE_HASH: hash,
    }
    return pclq(f"{group}-{index}-{name}", labels=labels, **fields)


def pcsg(
    name: str = "w-0-sg", *, replicas: int = 1, least: int = 1, cliques: Sequence[str] = ("c",), **fields: Any
) -> PodCliqueScalingGroup:
    created = fields.pop("created", NOW)
    conditions = tuple(fields.pop("conditions", ()))
    made = PodCliqueScalingGroup(
        metadata=ObjectMeta(
            name=name,
            namespace=NS,
            uid=f"uid-{name}",
            creation_timestamp=created,
            labels={names.PART_OF: "w", names.SET_INDEX: "0"},
        ),
        spec=PodCliqueScalingGroupSpec(replicas=replicas, min_available=least, clique_names=tuple(cliques)),
    )
    return made.evolve(status=made.status.evolve(conditions=conditions, **fields))


STATES = ("pending", "gated", "starting", "startedNotReady", "crashed", "ready")


def pod(
    name: str,
    state: str = "ready",
    *,
    hash: str = "new",
    hostname: str = "",
    labels: Mapping[str, str] | None = None,
    created: str = "2030-01-01T00:00:00Z",
    is_deleting: bool = False,
    owner: str = "",
    **spec: Any,
) -> Pod:
    """A pod in a state."""
    is_scheduled = state not in ("pending", "gated")
    conditions = [
        PodCondition(
            type="PodScheduled",
            status="True" if is_scheduled else "False",
            reason="SchedulingGated" if state == "gated" else "",
        ),
        PodCondition(type="Ready", status="True" if state == "ready" else "False"),
    ]
    ended = ContainerState(terminated=ContainerStateTerminated(exit_code=1))
    container = ContainerStatus(
        name="main",
        ready=state == "ready",
        started=state in ("ready", "startedNotReady"),
        last_state=ended if state == "crashed" else ContainerState(),
    )
    gates = (PodSchedulingGate(name=names.GATE),) if state == "gated" else ()
    owners = (
        (OwnerReference(kind="PodClique", name=owner, uid=f"uid-{owner}", controller=True),) if owner else ()
    )
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=NS,
            uid=f"uid-{name}",
            creation_timestamp=Time(created),
            deletion_timestamp=NOW if is_deleting else UNSET,
            labels={names.TEMPLATE_HASH: hash, **(labels or {})},
            owner_references=owners,
        ),
        spec=pod_spec(
            hostname=hostname,
            scheduling_gates=spec.pop("gates", gates),
            node_name=spec.pop("node_name", "n" if is_scheduled else ""),
            **spec,
        ),
        status=PodStatus(
            phase="Running" if is_scheduled and state != "starting" else "Pending",
            conditions=tuple(conditions),
            container_statuses=(container,) if is_scheduled else (),
        ),
    )


def variables(container: Container) -> list[str]:
    return [each.name for each in container.env]


def env(**values: str) -> tuple[EnvVar, ...]:
    return tuple(EnvVar(name=name, value=value) for name, value in values.items())


def light_definitions() -> list[dict[str, Any]]:
    """Definitions that take anything: schemas have tests of their own, and take their time to install."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    found = definitions()
    for definition in found:
        for version in definition["spec"]["versions"]:
            version["schema"] = {"openAPIV3Schema": anything}
    return found


class Grove:
    """The operator and the cluster of a test."""

    def __init__(self, cluster: TestCluster, manager: Manager, link: Link, events: EventLog) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.manager = manager
        self.link = link
        self.events = events

    async def settle(self) -> None:
        """Let the operator work until nothing is left to do."""
        base = [each for each in (self.manager,) if each is not None]
        await run_until_idle(*base, horizon=0.5)
        await asyncio.sleep(0.05)  # the cluster's own controllers
        await run_until_idle(*base, horizon=0.5)


async def set_ready(grove: Grove, *cliques: str) -> None:
    """Let the pods of some PodCliques run, or all pods."""
    for found in (await grove.client.list(Pod, namespace=NS)).items:
        if cliques and found.metadata.labels[names.PODCLIQUE] not in cliques:
            continue
        status = to_dict(pod(found.metadata.name).status)
        await grove.client.status.patch(found, MergePatch({"status": status}))


@asynccontextmanager
async def running(
    settings: Mapping[str, Any] | None = None,
    *,
    registry: BackendRegistry | None = None,
    cluster: TestCluster | None = None,
    link: Link | None = None,
    environ: Mapping[str, str] | None = None,
    before_patch: Interceptor | None = None,
) -> AsyncIterator[Grove]:
    """An operator without webhooks, on a cluster of its own unless one is given.

    ``before_patch`` is told of every patch that the operator sends.
    """
    if cluster is None:
        async with (
            TestCluster(crds=light_definitions(), controllers=True) as made,
            running(settings, registry=registry, cluster=made, link=link, environ=environ) as grove,
        ):
            yield grove
        return
    line = link if link is not None else cluster.link(name="grove")
    events = EventLog()
    used: Any = line
    if before_patch is not None:
        used = SimpleNamespace(client=intercept(line.client, patch=before_patch))
    manager = cluster.manager(link=used, recorder=events, metrics=RuntimeMetrics())
    chosen = registry if registry is not None else BackendRegistry(find=tuple)
    operator = GroveOperator(chosen, environ if environ is not None else {names.INIT_IMAGE_ENV: "initc"})
    operator.setup(manager, OperatorEnvironment(name="grove", settings=settings or {}, namespace=NS))
    async with cluster.serving(manager):
        await run_until_idle(manager)
        yield Grove(cluster, manager, line, events)
