"""The webhooks as the API server calls them, the authorizer, and the program of the init container."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from quarterdeck.api import DynamicObject, ObjectMeta
from quarterdeck.api.k8s import Container
from quarterdeck.client import MergePatch
from quarterdeck.errors import BadRequest, Forbidden, InternalError, Invalid, QuarterdeckError
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.assembly import GroveOperator
from quarterdeck.operators.grove.backends import Backend, BackendRegistry
from quarterdeck.operators.grove.initc import ArgumentError, missing_pods, parse_arguments
from quarterdeck.operators.grove.initc.program import main, wait_for_parents
from quarterdeck.operators.grove.initc.simulated import StartupGate
from quarterdeck.operators.grove.logic.capability import CAPABILITIES, missing_capabilities
from quarterdeck.operators.grove.logic.defaulting import with_defaults
from quarterdeck.operators.grove.types import (
    ClusterTopologyBinding,
    ClusterTopologySpec,
    Pack,
    PodCliqueScalingGroup,
    PodCliqueSet,
    SchedulerTopologyBinding,
    TopologyConstraint,
    TopologyLevel,
    definitions,
)
from quarterdeck.operators.grove.webhooks import Authorizer
from quarterdeck.operators.kai.types import definitions as kai_definitions
from quarterdeck.runtime.manager.manager import Manager
from quarterdeck.runtime.operator import OperatorEnvironment, OperatorWebhooks
from quarterdeck.runtime.webhook.admission import Admission, Denied
from quarterdeck.runtime.webhook.review import read_review
from quarterdeck.testing import TestCluster, run_until_idle

from .grovekit import NS, clique, group, pcs, pod, pod_spec

ENVIRON = {names.INIT_IMAGE_ENV: "initc", names.ACCOUNT_ENV: "grove-operator"}


def set_up(manager: Manager, registry: BackendRegistry | None = None, **settings: Any) -> OperatorWebhooks:
    operator = GroveOperator(registry or BackendRegistry(find=tuple), ENVIRON)
    return operator.setup(manager, OperatorEnvironment(name="grove", settings=settings, namespace=NS))


async def guarded(cluster: TestCluster, registry: BackendRegistry | None = None, **settings: Any) -> Manager:
    """A cluster whose webhooks are those of an operator that runs."""
    manager = cluster.manager()
    webhooks = set_up(manager, registry, **settings)
    await cluster.start(manager)
    await run_until_idle(manager)
    hooks = [hook for part in (webhooks, *webhooks.others) for hook in part.admission]
    await cluster.serve_webhooks(*hooks, name="grove")
    return manager


def fresh(*cliques: Any, **fields: Any) -> PodCliqueSet:
    made = pcs(*cliques, is_complete=False, **fields)
    return made.evolve(metadata=ObjectMeta(name=made.metadata.name, namespace=NS))


async def test_a_set_is_completed_checked_and_guarded_on_its_way_in(caplog: pytest.LogCaptureFixture) -> None:
    async with TestCluster(crds=definitions(), controllers=True) as cluster:
        manager = await guarded(cluster)
        client = cluster.client
        made = await client.create(fresh(clique("a", 3), clique("b"), groups=[group("g", ["b"], 2, 2)]))
        assert made.spec.template.cliques[0].spec.min_available == 3
        assert str(made.spec.template.termination_delay) == "4h0m0s"
        with pytest.raises(Forbidden, match="minAvailable must not be greater than replicas"):
            await client.create(fresh(clique("a", 2, 3), name="x"))
        with pytest.raises(Forbidden) as error:
            await client.create(fresh(clique("a", 2, 3), name="x", replicas=-1))
        for text in (
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            "minAvailable must not be greater than replicas",
        ):
            assert text in str(error.value)
        with pytest.raises(Forbidden, match="must be greater than or equal to 0"):
            await client.patch(made, MergePatch({"spec": {"replicas": -1}}))
        document = made.to_dict()["spec"]["template"]["cliques"]
        document[1]["spec"]["roleName"] = "other"
        renamed = MergePatch({"spec": {"template": {"cliques": document}}})
        with pytest.raises(Forbidden, match=r"spec.template.cliques.spec.roleName.*field is immutable"):
            await client.patch(made, renamed)
        with pytest.raises(Forbidden, match=r'spec: .*: schedulerName "x" is not enabled in Operator'):
            await client.create(fresh(clique("a", pod_spec=pod_spec(scheduler_name="x")), name="x"))
        await run_until_idle(manager)
        unchanged = (await client.get(PodCliqueSet, "w", NS)).to_dict()
        path = f"/apis/grove.io/v1alpha1/namespaces/{NS}/podcliquesets/w"
        answer = await client.raw("PUT", path, body=json.dumps(unchanged).encode())
        assert "restartPolicy will be ignored" in str(answer.headers)
        found = await client.get(PodCliqueScalingGroup, "w-0-g", NS)
        for how, replicas in ((client, 1), (client.subresource("scale"), 0)):
            await how.patch(found, MergePatch({"spec": {"replicas": replicas}}))
            texts = [getattr(record, "warning", "") for record in caplog.records]
            assert any(f"{replicas} is less than minAvailable 2" in text for text in texts)
        spread = made.to_dict()
        spread["metadata"] = {"name": "x", "namespace": NS}
        spread["spec"]["template"]["cliques"][1]["spec"]["podSpec"]["topologySpreadConstraints"] = []
        with pytest.raises(Forbidden, match=r"cliques\[1\].*topologySpreadConstraints: Invalid value: \[\]"):
            await client.create(DynamicObject.from_dict(spread))


async def test_a_set_that_was_accepted_before_can_still_be_deleted() -> None:
    async with TestCluster(crds=definitions(), controllers=True) as cluster:
        wrong = fresh(clique("a", 2, 5))  # nobody was there to refuse it
        await cluster.client.create(wrong)
        manager = await guarded(cluster)
        await cluster.client.delete(PodCliqueSet, "w", NS)
        await run_until_idle(manager)
        assert not (await cluster.client.list(PodCliqueSet, namespace=NS)).items


async def test_labels_and_annotations_are_judged_too() -> None:
    settings: dict[str, Any] = {"schedulerName": "kai-scheduler", "schedulerConfig": {"podGroups": "enabled"}}
    async with TestCluster(crds=[*definitions(), *kai_definitions()], controllers=True) as cluster:
        await guarded(cluster, **settings)
        made = await cluster.client.create(fresh(clique("a", labels={names.KAI_QUEUE: "team-a"})))
        for field, key, text in (
            ("labels", names.KAI_QUEUE, 'KAI queue on PodCliqueSet default/w is "other"'),
            (
                "annotations",
                names.MNNVL_GROUP,
                "annotation grove.io/mnnvl-group cannot be added after creation",
            ),
        ):
            with pytest.raises(Forbidden) as error:
                await cluster.client.patch(made, MergePatch({"metadata": {field: {key: "other"}}}))
            assert text in str(error.value)


async def test_a_set_that_is_older_than_its_rules_can_still_be_changed() -> None:
    settings: dict[str, Any] = {"schedulerName": "kai-scheduler", "schedulerConfig": {"podGroups": "enabled"}}
    async with TestCluster(crds=[*definitions(), *kai_definitions()], controllers=True) as cluster:
        without_queue = await cluster.client.create(with_defaults(fresh(clique("a"))))
        await guarded(cluster, **settings)
        with pytest.raises(Forbidden, match="no KAI queue is configured"):
            await cluster.client.create(fresh(clique("a"), name="x"))
        changed = await cluster.client.patch(without_queue, MergePatch({"spec": {"replicas": 2}}))
        assert changed.spec.replicas == 2


def topology(*levels: tuple[str, str], bound: Sequence[str] = ()) -> ClusterTopologyBinding:
    bindings = tuple(SchedulerTopologyBinding(scheduler_name=each, topology_reference="x") for each in bound)
    spec = ClusterTopologySpec(
        levels=tuple(TopologyLevel(domain=domain, key=key) for domain, key in levels),
        scheduler_topology_bindings=bindings,
    )
    return ClusterTopologyBinding(metadata=ObjectMeta(name="topo"), spec=spec)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (topology(("rack", "a"), ("rack", "b")), 'spec.levels[1].domain: Duplicate value: "rack"'),
        (topology(("rack", "a"), ("host", "a")), 'spec.levels[1].key: Duplicate value: "a"'),
        (
            topology(("rack", "a"), bound=["kai-scheduler"]),
            (
                'spec.schedulerTopologyReferences[0].schedulerName: Invalid value: "kai-scheduler": '
                "scheduler backend is not enabled in Grove"
            ),
        ),
        (
            topology(("rack", "a"), bound=["default-scheduler"]),
            "scheduler backend does not implement topology-aware scheduling",
        ),
        (
            topology(("rack", "a"), bound=["x", "x"]),
            (
                'spec.schedulerTopologyReferences[1].schedulerName: Duplicate value: "x", '
                'spec.schedulerTopologyReferences[1].schedulerName: Invalid value: "x": '
                "scheduler backend is not enabled in Grove"
            ),
        ),
    ],
)
async def test_a_topology_is_checked(made: ClusterTopologyBinding, text: str) -> None:
    async with TestCluster(crds=definitions()) as cluster:
        await guarded(cluster, topologyAwareScheduling={"enabled": True})
        with pytest.raises(Forbidden) as error:
            await cluster.client.create(made)
        assert text in str(error.value)


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        ({"topologyName": "x"}, "topologyConstraint must specify pack or deprecated packDomain"),
        ({"pack": {}}, "pack must specify at least one of required or preferred"),
        (
            {"packDomain": "rack", "pack": {"required": "rack"}},
            (
                "spec.template.topologyConstraint.pack.required: Invalid value: "
                "must not set both pack.required and deprecated packDomain"
            ),
        ),
        ({"pack": {"required": "Rack"}}, "should match '^[a-z][a-z0-9-]*$'"),
    ],
)
async def test_the_schema_knows_what_a_constraint_is(constraint: Any, text: str) -> None:
    async with TestCluster(crds=definitions()) as cluster:
        document = fresh(clique("a")).to_dict()
        document["spec"]["template"]["topologyConstraint"] = constraint
        with pytest.raises(Invalid) as error:
            await cluster.client.raw(
                "POST",
                f"/apis/grove.io/v1alpha1/namespaces/{NS}/podcliquesets",
                body=json.dumps(document).encode(),
            )
        assert text in str(error.value)


class Modest(Backend):
    """Can start gangs, and no more."""

    capabilities = frozenset({"gang"})


async def test_a_set_that_asks_for_more_than_its_scheduler_can_is_refused() -> None:
    registry = BackendRegistry(find=tuple)
    registry.register("modest", Modest)
    async with TestCluster(crds=definitions(), controllers=True) as cluster:
        await guarded(cluster, registry, schedulerName="modest")
        await cluster.client.create(fresh(clique("a", 3), name="simple"))
        greedy = fresh(clique("a"), clique("b", 2), name="x", priority_class_name="high")
        with pytest.raises(Forbidden) as error:
            await cluster.client.create(greedy)
        for path, capability in (
            ("spec.template.cliques", "hierarchical-gang"),
            ("spec.template.priorityClassName", "priority"),
        ):
            refusal = f'{path}: Forbidden: scheduler backend "modest" does not support {capability}'
            assert refusal in str(error.value)


def test_what_a_set_asks_for() -> None:
    near = TopologyConstraint(pack=Pack(required="rack", preferred="host"))
    made = pcs(clique("a", 2), clique("b", topology_constraint=near), groups=[group("g", ["b"])])
    found = {each.field: each.body for each in missing_capabilities(made, "x", ())}
    assert {path: text.rpartition(" ")[2] for path, text in found.items()} == {
        "spec.template.cliques[0].spec.minAvailable": "gang",
        "spec.template.cliques": "hierarchical-gang",
        "spec.template.cliques[1].topologyConstraint": "topology-preferred",
    }
    assert not missing_capabilities(made, "x", CAPABILITIES)


OPERATOR = "system:serviceaccount:grove-system:grove-operator"


class Reader:
    """Knows one set, or fails."""

    def __init__(self, found: PodCliqueSet | Exception | None) -> None:
        self._found = found

    async def pod_clique_set(self, name: str, namespace: str) -> PodCliqueSet | None:
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


def request(
    operation: str, user: str, kind: str = "PodClique", *, part_of: str = "w", raw: Any = None
) -> Admission:
    labels = {names.MANAGED_BY: names.OPERATOR, **({names.PART_OF: part_of} if part_of else {})}
    document = (
        raw
        if raw is not None
        else {"kind": kind, "metadata": {"name": "x", "namespace": NS, "labels": labels}}
    )
    is_new = operation == "CREATE"
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "operation": operation,
            "userInfo": {"username": user},
            "object": document if is_new else None,
            "oldObject": None if is_new else document,
        },
    }
    return Admission(read_review(json.dumps(review).encode())[1])


async def ask(admission: Admission, found: Any = None) -> str:
    """What the authorizer says; empty if it allows."""
    reader = Reader(found if found is not None else pcs(clique("a")))
    try:
        await Authorizer(reader, [OPERATOR, "gc"]).review(admission)  # type: ignore[arg-type]
    except Denied as error:
        return str(error)
    return ""


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
@pytest.mark.parametrize("user", [OPERATOR, "gc"])
async def test_the_operator_and_exempt_accounts_may_do_anything(operation: str, user: str) -> None:
    assert await ask(request(operation, user)) == ""


async def test_others_may_not() -> None:
    denied = "admission denied, creation/updation of resource: default/x is not allowed"
    assert await ask(request("CREATE", "me")) == denied
    assert await ask(request("UPDATE", "me")) == denied
    assert (
        await ask(request("DELETE", "me"))
        == "admission denied, deletion of resource: default/x is not allowed"
    )
    assert await ask(request("DELETE", "me", "Pod")) == ""
    assert await ask(request("BREW", "me")) == "Unhandled operation. Admission denied."


async def test_a_set_may_lift_the_protection() -> None:
    lifted = pcs(clique("a"), annotations={names.DISABLE_PROTECTION: "true"})
    admission = request("DELETE", "me")
    assert await ask(admission, lifted) == ""
    assert (
        admission.message == "admission allowed, resource protection is disabled for PodCliqueSet: default/w"
    )


async def test_what_belongs_to_no_set_is_not_protected() -> None:
    stray = request("UPDATE", "me", part_of="")
    assert await ask(stray) == ""
    assert stray.warnings == [
        (
            "missing required label app.kubernetes.io/part-of on resource default/x, could not "
            "determine parent PodCliqueSet"
        )
    ]
    orphan = request("UPDATE", "me")
    await Authorizer(Reader(None), []).review(orphan)  # type: ignore[arg-type]
    assert orphan.warnings == ["parent PodCliqueSet w not found for resource: default/x"]
    assert orphan.message == "admission allowed, no PodCliqueSet could be determined for resource: default/x"


async def test_what_cannot_be_read_is_an_error() -> None:
    with pytest.raises(BadRequest):
        await ask(request("CREATE", "me", raw=[1]))
    with pytest.raises(InternalError, match="cannot read PodCliqueSet default/w: no"):
        await ask(request("UPDATE", "me"), QuarterdeckError("no"))
    connect = request("CONNECT", "me")
    assert await ask(connect) == ""
    assert connect.message == "operation CONNECT is allowed"


async def test_the_authorizer_needs_to_know_who_the_operator_is() -> None:
    async with TestCluster(crds=definitions()) as cluster:
        operator = GroveOperator(BackendRegistry(find=tuple), {})
        environment = OperatorEnvironment(name="grove", settings={"authorizer": {"enabled": True}})
        with pytest.raises(QuarterdeckError, match='no "GROVE_OPERATOR_SERVICE_ACCOUNT_NAME" environment'):
            operator.setup(cluster.manager(), environment)
        webhooks = set_up(cluster.manager(), authorizer={"enabled": True})
        assert [part.configuration for part in webhooks.others][-1] == "authorizer-webhook"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--podcliques=a:3", "--podcliques= b : 4 "], {"a": 3, "b": 4}),
        (["--podcliques", "a:1,b:2"], {"a": 1, "b": 2}),
        ([], {}),
    ],
)
def test_arguments_are_read(arguments: list[str], expected: dict[str, int]) -> None:
    assert parse_arguments(arguments) == expected


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("--podcliques=a", "expected two values per podclique, found 1"),
        ("--podcliques=a:1:2", "expected two values per podclique, found 3"),
        ("--podcliques=a:0", "replica count must be positive, got 0"),
        ("--podcliques=a:x", "replica count must be a number, got 'x'"),
        ("--podcliques=:2", "podclique name cannot be empty"),
        ("--pods=a:2", "unknown argument '--pods=a:2'"),
    ],
)
def test_bad_arguments_are_named(argument: str, text: str) -> None:
    with pytest.raises(ArgumentError) as error:
        parse_arguments([argument])
    assert str(error.value) == text


def of(name: str, clique_name: str, state: str = "ready") -> Any:
    return pod(name, state, labels={names.PODCLIQUE: clique_name, names.PODGANG: "w-0"})


def test_pods_are_counted_by_label_not_by_name() -> None:
    pods = [of("w-0-pc-ab-1", "w-0-pc-ab"), of("w-0-pc-a-1", "w-0-pc-a", "starting")]
    assert missing_pods({"w-0-pc-a": 1}, pods) == {"w-0-pc-a": 1}
    assert missing_pods({"w-0-pc-ab": 1}, pods) == {}


async def test_the_program_ends_when_enough_pods_are_ready() -> None:
    async with TestCluster() as cluster:
        client = cluster.client
        made = [
            await client.create(each.evolve(metadata=each.metadata.evolve(uid="")))
            for each in (of("a", "w-0-a"), of("b", "w-0-a"))
        ]
        waiting = asyncio.create_task(wait_for_parents(client, {"w-0-a": 2}, gang="w-0", namespace=NS))
        await asyncio.sleep(1)
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        await client.status.patch(made[0], MergePatch(ready))
        await asyncio.sleep(1)
        assert not waiting.done()
        await client.status.patch(made[1], MergePatch(ready))
        await asyncio.wait_for(waiting, 5)


def test_the_program_says_what_it_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--podcliques=a"], tmp_path) == 1
    assert "expected two values per podclique" in capsys.readouterr().err
    assert main(["--podcliques=a:1"], tmp_path) == 1
    assert "No such file" in capsys.readouterr().err


async def test_where_kubelets_are_simulated_the_wait_is_the_same() -> None:
    async with TestCluster() as cluster:
        manager = cluster.manager()
        manager.cache.informer(type(pod("x")))
        async with cluster.serving(manager):
            await run_until_idle(manager)
            gate, waiting = StartupGate(manager.cache), of("c", "w-0-c", "pending")
            ours = Container(name=names.INIT_CONTAINER, args=("--podcliques=w-0-a:1",))
            assert gate(waiting, Container(name="other"))
            assert not gate(waiting, ours)
            assert not gate(waiting, ours.evolve(args=("nonsense",)))
            made = of("a", "w-0-a")
            made = await cluster.client.create(made.evolve(metadata=made.metadata.evolve(uid="")))
            ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            await cluster.client.status.patch(made, MergePatch(ready))
            await run_until_idle(manager)
            assert gate(waiting, ours)
