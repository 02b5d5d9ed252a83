"""The rooms ``api`` and ``client`` against a real kube-apiserver, each test in a namespace of its own."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from quarterdeck.api import (
    UNSET,
    Column,
    Condition,
    DynamicObject,
    GroupVersionKind,
    Maybe,
    Model,
    ObjectMeta,
    Quantity,
    Resource,
    Selector,
    Seq,
    Time,
    crd,
    omitempty,
)
from quarterdeck.api.condition import Conditions
from quarterdeck.api.finalizer import add_finalizer, finalizer_patch, remove_finalizer
from quarterdeck.api.intorstring import IntOrString
from quarterdeck.api.k8s import (
    ConfigMap,
    Container,
    CustomResourceDefinition,
    Deployment,
    Eviction,
    Namespace,
    Pod,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
    ScaleSubresource,
    ServiceAccount,
    TokenRequest,
    k8s_scheme,
)
from quarterdeck.api.k8s.authentication import TokenRequestSpec
from quarterdeck.api.k8s.autoscaling import MetricSpec
from quarterdeck.api.k8s.resource import ResourceClaimTemplateSpec
from quarterdeck.api.k8s.scale import ScaleSpec
from quarterdeck.api.marker import Atomic, Cel, Ge, Le, ListMap, OneOf
from quarterdeck.api.resource import Scale
from quarterdeck.client import (
    Bookmark,
    Client,
    Config,
    JsonPatch,
    MergePatch,
    StrategicMergePatch,
    WatchEvent,
    dry_run,
    merge_from,
    metadata_of,
    retry_on_conflict,
)
from quarterdeck.client.wrapper import field_validation
from quarterdeck.errors import (
    AlreadyExists,
    ApplyConflict,
    BadRequest,
    Conflict,
    Expired,
    Invalid,
    NoKindMatch,
    NotFound,
    SchemaError,
    UnsupportedMediaType,
    ignore_not_found,
)

pytestmark = pytest.mark.kube


@asynccontextmanager
async def world(kubeconfig: Path) -> AsyncIterator[tuple[Client, str]]:
    """A client and a namespace that is deleted afterwards."""
    name = f"qd-{uuid.uuid4().hex[:8]}"
    async with Client.connect(Config.load(kubeconfig), on_warning=lambda text: None) as client:
        await client.create(Namespace(metadata=ObjectMeta(name=name)))
        try:
            yield client, name
        finally:
            await client.delete(Namespace, name)


def config_map(namespace: str, name: str = "a", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data)


async def test_objects_live_through_all_verbs(real_server: Path) -> None:
    async with world(real_server) as (client, ns):
        created = await client.create(config_map(ns, k="v"))
        assert created.metadata.uid
        with pytest.raises(AlreadyExists, match='configmaps "a" already exists'):
            await client.create(config_map(ns))
        draft = created.draft()
        draft.data["k2"] = "v2"
        draft.metadata.labels["stage"] = "x"
        patched = await client.patch(draft.done(), merge_from(created, optimistic_lock=True))
        assert patched.data == {"k": "v", "k2": "v2"}
        with pytest.raises(Conflict, match="the object has been modified"):
            await client.patch(draft.done(), merge_from(created, optimistic_lock=True))
        with pytest.raises(Conflict):
            await client.update(created.evolve(data={}))
        updated = await client.update(patched.evolve(data={"z": "1"}))
        assert (await client.get(ConfigMap, "a", ns)).data == {"z": "1"}
        assert len(await client.list(ConfigMap, namespace=ns, labels={"stage": "x"})) == 1
        assert len(await client.list(ConfigMap, namespace=ns, fields="metadata.name=b")) == 0
        with pytest.raises(Conflict):
            await client.delete(updated, uid="00000000-0000-0000-0000-000000000000")
        await client.delete(updated, propagation="Background")
        with pytest.raises(NotFound, match='configmaps "a" not found'):
            await client.get(ConfigMap, "a", ns)


async def test_four_kinds_of_patches(real_server: Path) -> None:
    async with world(real_server) as (client, ns):
        pod = await client.create(
            Pod(
                metadata=ObjectMeta(name="p", namespace=ns),
                spec=PodSpec(containers=[Container(name="c", image="i")]),
            )
        )
        pod = await client.patch(
            pod, JsonPatch([{"op": "add", "path": "/metadata/labels", "value": {"a": "1"}}])
        )
        pod = await client.patch(pod, MergePatch({"metadata": {"labels": {"b": "2"}}}))
        pod = await client.patch(
            pod, StrategicMergePatch({"spec": {"containers": [{"name": "c", "image": "j"}]}})
        )
        assert pod.metadata.labels == {"a": "1", "b": "2"}
        assert pod.spec.containers[0].image == "j"
        with pytest.raises(Invalid):
            await client.patch(pod, JsonPatch([{"op": "test", "path": "/metadata/labels/a", "value": "9"}]))
        with pytest.raises(Invalid) as caught:
            await client.patch(pod, MergePatch({"spec": {"nodeName": "x"}}))
        assert caught.value.details.causes
        await client.delete(pod, grace_period=0)


async def test_apply_tracks_owners(real_server: Path) -> None:
    async with world(real_server) as (client, ns):
        await client.apply(config_map(ns, a="1"), field_manager="one")
        with pytest.raises(ApplyConflict) as caught:
            await client.apply(config_map(ns, a="2"), field_manager="two")
        assert caught.value.details.causes[0].field == ".data.a"
        taken = await client.apply(config_map(ns, a="2"), field_manager="two", force=True)
        assert taken.data == {"a": "2"}
        again = await client.apply(taken.evolve(data={"a": "3"}), field_manager="two")
        assert again.data == {"a": "3"}


async def test_subresources(real_server: Path) -> None:
    async with world(real_server) as (client, ns):
        web = await client.create(
            Deployment.from_dict(
                {
                    "metadata": {"name": "web", "namespace": ns},
                    "spec": {
                        "selector": {"matchLabels": {"a": "b"}},
                        "template": {
                            "metadata": {"labels": {"a": "b"}},
                            "spec": {"containers": [{"name": "c", "image": "i"}]},
                        },
                    },
                }
            )
        )
        scale = await client.subresource("scale").get(Deployment, "web", ns, returns=ScaleSubresource)
        scale = await client.subresource("scale").put(web, scale.evolve(spec=ScaleSpec(replicas=3)))
        assert scale.spec.replicas == 3
        web = await client.status.patch(
            await client.get(Deployment, "web", ns), MergePatch({"status": {"replicas": 2}})
        )
        web = await client.status.update(web.evolve(status=web.status.evolve(ready_replicas=1)))
        assert (web.status.replicas, web.status.ready_replicas) == (2, 1)
        account = await client.create(ServiceAccount(metadata=ObjectMeta(name="s", namespace=ns)))
        request = TokenRequest(spec=TokenRequestSpec(expiration_seconds=600))
        token = await client.subresource("token").create(account, request)
        assert token.status.token
        async with Client.connect(
            Config.load(real_server).evolve(tls=_only_ca(real_server), token=token.status.token)
        ) as other:
            review = DynamicObject({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
            who = await other.create(review)
            assert who.at("status", "userInfo", "username") == f"system:serviceaccount:{ns}:s"
        pod = await client.create(
            Pod(
                metadata=ObjectMeta(name="p", namespace=ns),
                spec=PodSpec(containers=[Container(name="c", image="i")]),
            )
        )
        await client.subresource("eviction").create(
            pod, Eviction(metadata=ObjectMeta(name="p", namespace=ns))
        )


def _only_ca(real_server: Path) -> Any:
    return msgspec.structs.replace(
        Config.load(real_server).tls, cert_data="", key_data="", cert_file="", key_file=""
    )


async def test_watch_with_initial_events(real_server: Path) -> None:
    async with world(real_server) as (client, ns):
        first = await client.create(config_map(ns, "first"))
        seen: list[str] = []
        async with client.watch(
            ConfigMap, namespace=ns, send_initial_events=True, timeout_seconds=20
        ) as events:
            async for event in events:
                if isinstance(event, Bookmark):
                    if event.ends_initial_events:
                        seen.append("synced")
                        await client.delete(first)
                    continue
                assert isinstance(event, WatchEvent)
                if event.object.metadata.name == "first":
                    seen.append(event.type)
                    if event.type == "DELETED":
                        break
        assert seen == ["ADDED", "synced", "DELETED"]


async def test_dynamic_metadata_pages_and_discovery(real_server: Path) -> None:
    async with world(real_server) as (client, ns):
        for i in range(5):
            await client.create(config_map(ns, f"m{i}"))
        gvk = GroupVersionKind("", "v1", "ConfigMap")
        pages = [len(page) async for page in client.pages(gvk, namespace=ns, limit=2)]
        assert sum(pages) >= 5
        assert max(pages) <= 2
        head = (await client.list(metadata_of(gvk), namespace=ns))[0]
        assert (head.kind, head.api_version) == ("ConfigMap", "v1")
        patched = await client.patch(head, MergePatch({"metadata": {"labels": {"x": "y"}}}))
        assert patched.metadata.labels == {"x": "y"}
        with pytest.raises(NoKindMatch):
            await client.get(GroupVersionKind("nope.io", "v1", "Nope"), "x")
        assert (await client.mapper.find("deploy")).subresources >= {"status", "scale"}
        await client.delete_all_of(ConfigMap, namespace=ns, labels="")
        assert [
            c for c in await client.list(ConfigMap, namespace=ns) if c.metadata.name.startswith("m")
        ] == []


async def test_dry_run_and_strict_validation(real_server: Path) -> None:
    async with world(real_server) as (client, ns):
        await dry_run(client).create(config_map(ns, "dry"))
        with pytest.raises(NotFound):
            await client.get(ConfigMap, "dry", ns)
        wrong = DynamicObject(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "q", "namespace": ns}, "dat": {}}
        )
        with pytest.raises(BadRequest, match='unknown field "dat"'):
            await field_validation(client, "Strict").create(wrong)


async def test_finalizers_never_erase_each_other(real_server: Path) -> None:
    async with world(real_server) as (client, ns):
        obj = await client.create(config_map(ns))
        mine = add_finalizer(obj.metadata, "example.io/mine")
        theirs = add_finalizer(obj.metadata, "example.io/theirs")
        obj = await client.patch(obj, JsonPatch(finalizer_patch(obj.metadata, mine)))
        with pytest.raises(Invalid):
            await client.patch(obj, JsonPatch(finalizer_patch(ObjectMeta(resource_version="1"), theirs)))
        assert obj.metadata.finalizers == ("example.io/mine",)
        gone = remove_finalizer(obj.metadata, "example.io/mine")
        await client.patch(obj, JsonPatch(finalizer_patch(obj.metadata, gone)))


async def test_conflicting_writers_all_get_through(real_server: Path) -> None:
    async with world(real_server) as (client, ns):
        await client.create(config_map(ns, "counter", n="0"))

        async def increment() -> None:
            async def attempt() -> ConfigMap:
                obj = await client.get(ConfigMap, "counter", ns)
                return await client.update(obj.evolve(data={"n": str(int(obj.data["n"]) + 1)}))

            for _ in range(20):
                try:
                    await retry_on_conflict(attempt)
                    return
                except Conflict:
                    continue

        await asyncio.gather(*(increment() for _ in range(5)))
        assert (await client.get(ConfigMap, "counter", ns)).data == {"n": "5"}


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "1000m",
        "1500m",
        "0.1",
        "1k",
        "1e3",
        "1.5Gi",
        "1024Mi",
        "0.5Ki",
        "100M",
        "1Ti",
        "123456789",
    ],
)
async def test_quantities_are_canonical_as_on_the_server(real_server: Path, text: str) -> None:
    async with world(real_server) as (client, ns):
        pod = Pod(
            metadata=ObjectMeta(name="p", namespace=ns),
            spec=PodSpec(
                containers=[
                    Container(
                        name="c", image="i", resources=ResourceRequirements(limits={"memory": Quantity(text)})
                    )
                ]
            ),
        )
        stored = await client.create(pod, dry_run=True)
        assert str(stored.spec.containers[0].resources.limits["memory"]) == Quantity(text).canonical()


@pytest.mark.parametrize(
    "text", ["x==a==b", "x in (a", "!x=a", ",", "x a", "a/b/c=d", "x=a||b", "x>a", "a=" + "v" * 64]
)
async def test_selectors_are_refused_in_the_same_words(real_server: Path, text: str) -> None:
    async with world(real_server) as (client, ns):
        with pytest.raises(BadRequest) as caught:
            await client.raw("GET", f"/api/v1/namespaces/{ns}/pods", query={"labelSelector": text})
        with pytest.raises(SchemaError) as ours:
            Selector.parse(text)
        assert str(ours.value) in str(caught.value)


def unknown_fields(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Model):
        rest = {k: v for k, v in (value.unknown_fields or {}).items() if v is not None}
        if rest:
            yield f"{path}: {rest}"
        for name in type(value).__struct_fields__:  # type: ignore[attr-defined]
            yield from unknown_fields(getattr(value, name), f"{path}.{name}")
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from unknown_fields(item, f"{path}[{i}]")


async def test_every_stored_object_decodes_without_a_rest_and_unchanged(real_server: Path) -> None:
    async with world(real_server) as (client, _):
        served = {mapping.gvk: mapping for mapping in await client.mapper.all()}
        for cls in k8s_scheme():
            if cls.type_info.gvk not in served or "list" not in served[cls.type_info.gvk].verbs:
                continue
            page = await client.list_raw(cls, limit=200)
            for item in page.items:
                document = msgspec.json.decode(item)
                obj = cls.from_bytes(bytes(item))
                assert list(unknown_fields(obj, cls.__name__)) == []
                expected = {"apiVersion": obj.api_version, "kind": obj.kind, **document}
                assert _normal(obj.to_dict()) == _normal(expected)


def _normal(value: Any) -> Any:
    """Empty values that Go writes and we leave out count as absent."""
    if isinstance(value, dict):
        return {k: n for k, v in value.items() if (n := _normal(v)) not in ({}, [], None, "", 0)}
    if isinstance(value, list):
        return [_normal(item) for item in value]
    return value


class PoolMode(Model, rules=[OneOf({"required": ["linear"]}, {"required": ["buddy"]})]):
    """How blocks are chosen."""

    linear: Maybe[bool] = UNSET
    buddy: Maybe[bool] = UNSET


class PoolSpec(Model, rules=[Cel("self.low <= self.high", message="low must not exceed high")]):
    """What a pool should be."""

    low: Annotated[int, Ge(0), Le(99)] = 1
    high: Annotated[int, Ge(0), Le(99)] = 9
    kind: Literal["A", "B"] = "A"
    fixed: Annotated[Maybe[str], Cel("self == oldSelf", message="fixed is immutable")] = UNSET
    mode: Maybe[PoolMode] = UNSET
    share: Maybe[IntOrString] = UNSET
    amount: Maybe[Quantity] = UNSET
    template: Maybe[PodTemplateSpec] = UNSET
    metrics: Annotated[Seq[MetricSpec], Atomic()] = omitempty(())
    claim: Maybe[ResourceClaimTemplateSpec] = UNSET


class PoolStatus(Model):
    """What a pool is."""

    replicas: int = 0
    selector: Maybe[str] = UNSET
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())


GROUP = "quarterdeck-client-test.io"


class Pool(
    Resource,
    group=GROUP,
    version="v1",
    short_names=["qdpool"],
    status=True,
    scale=Scale(".spec.high", ".status.replicas", ".status.selector"),
    columns=[Column("Low", ".spec.low", "integer"), Column.age()],
    selectable=[".spec.kind"],
):
    """A pool."""

    spec: PoolSpec
    status: PoolStatus = omitempty(PoolStatus())


class PoolOld(
    Resource,
    group=GROUP,
    version="v1alpha1",
    kind="Pool",
    short_names=["qdpool"],
    status=True,
    storage=False,
    deprecated="use v1",
):
    spec: PoolSpec = omitempty(PoolSpec())


async def _established(client: Client, name: str) -> None:
    for _ in range(100):
        definition = await client.get(CustomResourceDefinition, name)
        if any(c.type == "Established" and c.status == "True" for c in definition.status.conditions):
            problems = [c for c in definition.status.conditions if c.type == "NonStructuralSchema"]
            assert problems == []
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{name} was not established")


async def _removed(client: Client, name: str) -> None:
    with ignore_not_found():
        while True:
            await client.delete(CustomResourceDefinition, name)
            await asyncio.sleep(0.1)


@asynccontextmanager
async def pools(client: Client) -> AsyncIterator[None]:
    """The kind ``Pool`` is served."""
    definition = DynamicObject(crd(Pool, PoolOld))
    stored = await client.apply(definition, field_manager="test", force=True, field_validation="Strict")
    try:
        await _established(client, stored.metadata.name)
        yield
    finally:
        await _removed(client, stored.metadata.name)


async def test_classes_become_a_working_custom_resource(real_server: Path) -> None:
    async with world(real_server) as (client, ns), pools(client):
        await _use_pool(client, ns)


async def test_old_version_has_expired(real_server: Path) -> None:
    async with world(real_server) as (client, ns), pools(client):
        # The server remembers no changes from before it began to watch the kind itself.
        await _served(client, _pool("d", ns))
        async with client.watch(Pool, namespace=ns, resource_version="1") as events:
            with pytest.raises(Expired):
                await anext(events)


async def _use_pool(client: Client, ns: str) -> None:
    meta = ObjectMeta(name="p", namespace=ns)
    bare = await _served(client, _pool("d", ns))
    assert bare["spec"] == {"low": 1, "high": 9, "kind": "A"}
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels={"a": "b"}), spec=PodSpec(containers=[Container(name="c", image="i")])
    )
    pool = await client.create(
        Pool(
            metadata=meta,
            spec=PoolSpec(template=template, share="10%", amount=Quantity("1500m"), fixed="x"),
        )
    )
    assert pool.spec.template == template
    assert str(pool.spec.amount) == "1500m"
    for changes in ({"low": 50}, {"low": 100}, {"fixed": "y"}, {"mode": PoolMode()}, {"kind": "C"}):
        with pytest.raises(Invalid):
            await client.update(pool.evolve(spec=pool.spec.evolve(**changes)))
    with pytest.raises(UnsupportedMediaType):
        await client.patch(pool, StrategicMergePatch({"spec": {"low": 2}}))
    conditions = Conditions()
    conditions.set("Ready", True, reason="Fine", now=Time("2024-01-01T00:00:00Z"), observed_generation=1)
    status = PoolStatus(replicas=2, selector="a=b", conditions=conditions.frozen())
    pool = await client.status.update(pool.evolve(status=status))
    assert pool.status == status
    scale = await client.subresource("scale").get(Pool, "p", ns, returns=ScaleSubresource)
    assert (scale.spec.replicas, scale.status.replicas, scale.status.selector) == (9, 2, "a=b")
    assert len(await client.list(Pool, namespace=ns, fields="spec.kind=A")) == 2
    old = await client.get(PoolOld, "p", ns)
    assert old.api_version == f"{GROUP}/v1alpha1"
    assert old.spec.fixed == "x"


def _pool(name: str, namespace: str) -> DynamicObject:
    metadata = {"name": name, "namespace": namespace}
    return DynamicObject({"apiVersion": f"{GROUP}/v1", "kind": "Pool", "metadata": metadata, "spec": {}})


async def _served(client: Client, obj: DynamicObject) -> DynamicObject:
    """Create the first object of a new kind, which takes the server a moment to serve."""
    for _ in range(50):
        try:
            return await client.create(obj)
        except (NotFound, NoKindMatch):
            await asyncio.sleep(0.1)
    return await client.create(obj)
