"""Fault plans decide, links do it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s.core import ConfigMap, Secret
from quarterdeck.apiserver import Durability, ServerOptions
from quarterdeck.client import Client, metadata_of
from quarterdeck.errors import (
    ApiError,
    Conflict,
    ConnectError,
    NotFound,
    ReadTimeout,
    StreamClosed,
    TooManyRequests,
)
from quarterdeck.runtime.cache.informer import Informer
from quarterdeck.testing import (
    READS,
    WRITES,
    Break,
    CutWatch,
    DelayEvents,
    FaultPlan,
    Latency,
    Link,
    LoseAnswer,
    LoseEvents,
    Refuse,
    RefuseConnection,
    RepeatEvents,
    RequestTarget,
    SilenceWatch,
    TestCluster,
    WatchError,
    delay,
    eventually,
    intercept,
    lose_answer,
    raise_once,
    raise_times,
)

STRAY = b'{"type":"MODIFIED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"stray"}}}\n'
GET = RequestTarget("get", "pods", "default", "a")
ALL = ["ADDED a", "ADDED b", "ADDED c"]
CREATE = RequestTarget("create", "widgets.example.com", "default")


def config(name: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"))


def codes(plan: FaultPlan, count: int = 200) -> list[str]:
    faults = (plan.fault(GET, float(i)) for i in range(count))
    return [fault.label if fault is not None else "" for fault in faults]


def test_same_seed_gives_the_same_faults_and_another_seed_others() -> None:
    def rules() -> tuple[Refuse, Refuse]:
        return Refuse(500, rate=0.3), Refuse(429, rate=0.3)

    assert codes(FaultPlan(3, *rules())) == codes(FaultPlan(3, *rules()))
    assert codes(FaultPlan(3, *rules())) != codes(FaultPlan(4, *rules()))
    plan = FaultPlan(3, *rules())
    found = codes(plan)
    assert {"500", "429", ""} == set(found)
    assert plan.struck == {"500": found.count("500"), "429": found.count("429")}


@pytest.mark.parametrize(
    ("rule", "struck"),
    [
        (Refuse(500, verbs=frozenset({"get"})), [0, 2, 4, 6, 8]),
        (Refuse(500, resources=frozenset({"widgets.example.com"})), [1, 3, 5, 7, 9]),
        (Refuse(500, nth=3), [2]),
        (Refuse(500, times=2), [0, 1]),
        (Refuse(500, since=3.0, until=5.0), [3, 4]),
        (Refuse(500, verbs=WRITES, nth=2), [3]),
        (Refuse(500, rate=0.0), []),
    ],
    ids=["verbs", "resources", "nth", "times", "window", "nth write", "never"],
)
def test_rules_choose_their_requests(rule: Refuse, struck: list[int]) -> None:
    plan = FaultPlan(0, rule)
    found = [i for i in range(10) if plan.fault((GET, CREATE)[i % 2], float(i)) is not None]
    assert found == struck


def test_the_first_fault_that_strikes_happens_and_delays_add_up() -> None:
    plan = FaultPlan(0, Latency((1.0, 1.0)), Refuse(409, verbs=WRITES), Latency((2.0, 2.0)), Refuse(500))
    assert plan.delay(CREATE, 0.0) == 3.0
    assert getattr(plan.fault(CREATE, 0.0), "code", 0) == 409
    assert plan.struck["500"] == 0
    assert plan.watch_end(RequestTarget("watch", "pods"), 0.0) is None


async def test_refusals_arrive_as_errors_of_the_client(cluster: TestCluster) -> None:
    link = cluster.link(FaultPlan(0, Refuse(409, verbs=WRITES), RefuseConnection(verbs=READS, times=20)))
    with pytest.raises(Conflict, match="a fault of the plan"):
        await link.client.create(config("a"))
    with pytest.raises(ConnectError):
        await link.client.get(ConfigMap, "a", "default")
    assert [each.status for each in link.log] == [0] * 12, "one create, a get with its ten retries"
    assert link.writes == []


async def test_retry_after_is_honoured(cluster: TestCluster) -> None:
    link = cluster.link(FaultPlan(0, Refuse(429, retry_after=3, times=2)))
    started = asyncio.get_running_loop().time()
    await link.client.create(config("a"))
    assert 6.0 <= asyncio.get_running_loop().time() - started <= 12.0
    assert link.count("create", "configmaps") == 3


async def test_a_lost_answer_is_an_error_of_a_write_that_happened(cluster: TestCluster) -> None:
    link = cluster.link(FaultPlan(0, LoseAnswer(times=1)))
    with pytest.raises(StreamClosed):
        await link.client.create(config("a"))
    assert await cluster.client.get(ConfigMap, "a", "default")
    assert [each.status for each in link.writes] == [201]
    assert "create configmaps default" in str(link.log[0])


async def test_latency_takes_virtual_time(cluster: TestCluster) -> None:
    link = cluster.link(FaultPlan(0, Latency((5.0, 5.0))))
    started = asyncio.get_running_loop().time()
    await link.client.create(config("a"))
    assert asyncio.get_running_loop().time() - started == pytest.approx(5.0)


async def _events(client: Client, seconds: float) -> list[str]:
    """What a watch from now on delivers, and how it ends."""
    seen: list[str] = []
    try:
        async with asyncio.timeout(seconds), client.watch(ConfigMap, namespace="default") as events:
            async for event in events:
                seen.append(f"{event.type} {event.object.metadata.name}")
        seen.append("end")
    except TimeoutError:
        seen.append("silence")
    except ApiError as error:
        seen.append(str(error.code))
    return seen


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (FaultPlan(), [*ALL, "silence"]),
        (FaultPlan(0, CutWatch((1.5, 1.5))), ["ADDED a", "ADDED b", "end"]),
        (FaultPlan(0, WatchError(410, (1.5, 1.5))), ["ADDED a", "ADDED b", "410"]),
        (FaultPlan(0, CutWatch((2.5, 2.5)), WatchError(429, (0.5, 0.5))), ["ADDED a", "429"]),
        (FaultPlan(0, SilenceWatch((0.5, 0.5))), ["ADDED a", "silence"]),
        (FaultPlan(0, RepeatEvents()), [f"ADDED {name}" for name in "aabbcc"] + ["silence"]),
        (FaultPlan(0, DelayEvents((8.5, 8.5))), ["ADDED a", "silence"]),
        (FaultPlan(0, DelayEvents((8.5, 8.5), types=frozenset({"BOOKMARK"}))), [*ALL, "silence"]),
        (FaultPlan(0, LoseEvents(nth=2)), ["ADDED a", "ADDED c", "silence"]),
        (FaultPlan(0, LoseEvents(types=frozenset({"DELETED"}))), [*ALL, "silence"]),
    ],
    ids=["none", "cut", "410", "first", "silent", "repeat", "late", "late type", "lost", "lost type"],
)
async def test_watches_end_and_err_as_planned(
    cluster: TestCluster, plan: FaultPlan, expected: list[str]
) -> None:
    link = cluster.link(plan)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(_events(link.client, 10.0))
        await asyncio.sleep(0.1)
        for name in "abc":
            await cluster.client.create(config(name))
            await asyncio.sleep(1.0)
    assert watching.result() == expected
    assert link.open_streams == 0


async def test_a_cut_link_lets_nothing_through_until_it_is_restored(cluster: TestCluster) -> None:
    link = cluster.link()
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(_events(link.client, 600.0))
        await asyncio.sleep(0.1)
        link.cut()
    assert watching.result() == ["end"]
    with pytest.raises(ConnectError):
        await link.client.create(config("a"))
    link.cut(silently=True)
    with pytest.raises(ReadTimeout):
        await link.client.create(config("a"))
    link.restore()
    await link.client.create(config("a"))
    assert [each.status for each in link.writes] == [201]


async def test_interceptors_fail_delay_and_lose_single_calls(cluster: TestCluster) -> None:
    client = intercept(
        cluster.client,
        create=raise_times(2, lambda: TooManyRequests("busy")),
        update=raise_once(Conflict("changed")),
        delete=lose_answer(),
        get=delay(30.0),
    )
    for _ in range(2):
        with pytest.raises(TooManyRequests):
            await client.create(config("a"))
    made = await client.create(config("a"))
    with pytest.raises(Conflict):
        await client.update(made)
    await client.update(made)
    with pytest.raises(StreamClosed):
        await client.delete(made)
    started = asyncio.get_running_loop().time()
    await eventually(lambda: _is_gone(client))
    assert asyncio.get_running_loop().time() - started >= 30.0


async def _is_gone(client: Client) -> bool:
    found = await client.list(ConfigMap, namespace="default")
    with pytest.raises(ApiError):
        await client.get(ConfigMap, "a", "default")
    return not found.items


async def test_every_call_can_be_failed_in_turn(cluster: TestCluster) -> None:
    """The n-th request fails, for every n: each time the client ends up where it wanted."""

    async def work(link: Link, name: str) -> None:
        await _again(lambda: link.client.apply(config(name), field_manager="t", force=True))
        await _again(lambda: link.client.get(ConfigMap, name, "default"))

    for nth in range(1, 4):
        link = cluster.link(FaultPlan(0, Refuse(500, nth=nth)))
        await work(link, f"n{nth}")
        assert link.plan.struck["500"] == (1 if nth <= 2 else 0)
        assert await cluster.client.get(ConfigMap, f"n{nth}", "default")


async def _again(call: Callable[[], object]) -> None:
    for _ in range(3):
        try:
            await call()  # type: ignore[misc]
        except ApiError:
            continue
        return
    raise AssertionError("failed three times")


def test_rules_choose_objects_or_one_of_their_subresources() -> None:
    status = RequestTarget("patch", "pods", "default", "a", "status")
    whole = RequestTarget("patch", "pods", "default", "a")

    def strikes(subresource: str | None) -> list[bool]:
        plan = FaultPlan(0, Refuse(500, subresource=subresource))
        return [plan.fault(target, 0.0) is not None for target in (whole, status)]

    assert strikes(None) == [True, True]
    assert strikes("") == [True, False]
    assert strikes("status") == [False, True]


def test_rules_that_are_added_leave_the_counts_of_the_others_alone() -> None:
    plan = FaultPlan(0, Refuse(500, times=1))
    assert [plan.fault(GET, 0.0) is not None for _ in range(2)] == [True, False]
    plan.add(Refuse(503, times=1))
    assert len(plan.rules) == 2
    assert codes(plan, 2) == ["503", ""]


async def test_a_refusal_may_hide_that_the_write_was_done(cluster: TestCluster) -> None:
    link = cluster.link(plan=FaultPlan(0, Refuse(403, verbs=WRITES, is_done=True)))
    with pytest.raises(ApiError) as error:
        await link.client.create(config("a"))
    assert error.value.code == 403
    assert (await cluster.client.get(ConfigMap, "a", "default")).metadata.name == "a"


async def test_a_held_link_lets_requests_wait_and_loses_nothing(cluster: TestCluster) -> None:
    link = cluster.link()
    link.hold()
    creating = asyncio.create_task(link.client.create(config("a")))
    await asyncio.sleep(60)
    assert not creating.done()
    with pytest.raises(NotFound):
        await cluster.client.get(ConfigMap, "a", "default")
    link.release()
    assert (await creating).metadata.name == "a"


@pytest.mark.parametrize("resource", ["", "configmaps"])
async def test_held_events_wait_and_come_in_their_order(cluster: TestCluster, resource: str) -> None:
    link = cluster.link()
    seen: list[str] = []
    async with link.client.watch(ConfigMap, namespace="default") as events:

        async def read() -> None:
            async for event in events:
                if event.object.metadata.name in "abc":
                    seen.append(event.object.metadata.name)

        reading = asyncio.create_task(read())
        await asyncio.sleep(1)
        link.hold(resource)
        for name in "abc":
            await cluster.client.create(config(name))
        await asyncio.sleep(60)
        assert seen == []
        assert link.pending == 1
        link.release(resource)
        await eventually(lambda: seen == ["a", "b", "c"])
        reading.cancel()
        await asyncio.wait([reading])


async def test_holding_the_events_of_one_resource_holds_nothing_else(cluster: TestCluster) -> None:
    link = cluster.link()
    link.hold("secrets")
    assert (await link.client.create(config("a"))).metadata.name == "a"


async def test_a_line_breaks_after_the_write_and_nothing_comes_through_any_more(cluster: TestCluster) -> None:
    link = cluster.link(plan=FaultPlan(0, Break(verbs=frozenset({"create"}), times=1)))
    with pytest.raises(ReadTimeout):
        await link.client.create(config("a"))
    assert link.is_cut
    assert (await cluster.client.get(ConfigMap, "a", "default")).metadata.name == "a"
    with pytest.raises(ReadTimeout):
        await link.client.create(config("b"))
    link.restore()
    assert (await link.client.create(config("b"))).metadata.name == "b"


async def _watched(
    cluster: TestCluster, link: Link, strike: Callable[[], object], name: str = "b"
) -> list[str]:
    """What a watch sees of ``a``, then of a fault, then of another object."""
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(_events(link.client, 10.0))
        await asyncio.sleep(0.1)
        await cluster.client.create(config("a"))
        await asyncio.sleep(1)
        strike()
        await cluster.client.create(config(name))
    return watching.result()


@pytest.mark.parametrize(
    ("strike", "expected"),
    [
        (Link.end_watches, ["end"]),
        (Link.silence_watches, ["silence"]),
        (lambda link, resource: link.fail_watches(410, resource), ["410"]),
        (lambda link, resource: link.deliver(STRAY, resource), ["MODIFIED stray", "ADDED b", "silence"]),
    ],
    ids=["end", "silence", "error", "stray"],
)
async def test_open_watches_are_struck_at_a_moment(
    cluster: TestCluster, strike: Callable[[Link, str], None], expected: list[str]
) -> None:
    link = cluster.link()
    assert await _watched(cluster, link, lambda: strike(link, "configmaps")) == ["ADDED a", *expected]
    assert link.open_streams == 0


@pytest.mark.parametrize(
    "strike", [Link.end_watches, Link.silence_watches, partial(Link.deliver, chunk=b"x")]
)
async def test_watches_of_other_resources_are_left_alone(
    cluster: TestCluster, strike: Callable[..., None]
) -> None:
    link = cluster.link()
    seen = await _watched(cluster, link, lambda: strike(link, resource="secrets"))
    assert seen == ["ADDED a", "ADDED b", "silence"]


async def test_a_watch_that_is_reset_ends_with_an_error_of_the_connection(cluster: TestCluster) -> None:
    link = cluster.link()
    asyncio.get_running_loop().call_later(1, lambda: link.end_watches(reset=True))
    with pytest.raises(StreamClosed, match="reset"):
        await _events(link.client, 10.0)


async def test_a_watch_counts_as_open_until_it_is_struck(cluster: TestCluster) -> None:
    link = cluster.link()
    open_ones: list[int] = []

    def strike() -> None:
        open_ones.append(link.open_watches("configmaps"))
        open_ones.append(link.open_watches("secrets"))
        link.silence_watches()
        open_ones.append(link.open_watches())

    await _watched(cluster, link, strike)
    assert open_ones == [1, 0, 0]


async def test_an_error_in_a_stream_may_ask_to_wait(cluster: TestCluster) -> None:
    link = cluster.link()
    asyncio.get_running_loop().call_later(1, lambda: link.fail_watches(429, retry_after=7))
    async with link.client.watch(ConfigMap) as events:
        with pytest.raises(TooManyRequests) as raised:
            _ = [event async for event in events]
    assert raised.value.retry_after == 7


async def test_a_compacted_cluster_refuses_watches_from_before(cluster: TestCluster) -> None:
    first = await cluster.client.create(config("a"))
    second = await cluster.client.create(config("b"))
    await cluster.compact()
    with pytest.raises(ApiError, match="too old resource version") as refused:
        async with cluster.client.watch(
            ConfigMap, resource_version=first.metadata.resource_version
        ) as events:
            await anext(aiter(events))
    assert refused.value.code == 410
    version = second.metadata.resource_version
    async with cluster.client.watch(ConfigMap, namespace="default", resource_version=version) as events:
        await cluster.client.create(config("c"))
        assert (await anext(aiter(events))).object.metadata.name == "c"


async def test_a_compacted_cluster_refuses_watches_of_what_did_not_change(cluster: TestCluster) -> None:
    quiet = await cluster.client.create(config("a"))
    await cluster.client.create(Secret(metadata=ObjectMeta(name="s", namespace="default")))
    await cluster.compact()
    with pytest.raises(ApiError) as refused:
        async with cluster.client.watch(
            ConfigMap, resource_version=quiet.metadata.resource_version
        ) as events:
            await anext(aiter(events))
    assert refused.value.code == 410


async def test_a_link_can_be_moved_to_another_cluster(cluster: TestCluster) -> None:
    link = cluster.link()
    await link.client.create(config("a"))
    async with TestCluster() as restored:
        link.move_to(restored.link())
        with pytest.raises(NotFound):
            await link.client.get(ConfigMap, "a", "default")
        await link.client.create(config("b"))
        assert await restored.client.get(ConfigMap, "b", "default")


def names(informer: Informer) -> set[str]:
    return {each.name for each in informer.entries()}


async def test_a_cluster_goes_on_from_a_backup_and_watches_list_again(tmp_path: Path) -> None:
    options = ServerOptions(data_dir=tmp_path / "data", durability=Durability.NORMAL)
    async with TestCluster(server=options) as cluster:
        await cluster.client.create(config("kept"))
        cluster.backup(tmp_path / "backup")
        lost = await cluster.client.create(config("lost"))
        manager = cluster.manager()
        informer = manager.cache.informer(ConfigMap)
        async with cluster.serving(manager):
            await eventually(lambda: names(informer) >= {"kept", "lost"})
            await cluster.restore(tmp_path / "backup")
            made = await cluster.client.create(config("made"))
            assert int(made.metadata.resource_version) > int(lost.metadata.resource_version) + 1_000_000
            await eventually(lambda: names(informer) & {"made", "lost"} == {"made"})
        with pytest.raises(NotFound):
            await cluster.client.get(ConfigMap, "lost", "default")


async def test_a_rule_may_look_at_query_parameters(cluster: TestCluster) -> None:
    link = cluster.link(FaultPlan(0, Refuse(422, parameter="sendInitialEvents")))
    with pytest.raises(ApiError) as refused:
        async with link.client.watch(ConfigMap, send_initial_events=True) as events:
            await anext(aiter(events))
    assert refused.value.code == 422
    assert (await link.client.list(ConfigMap)).items == []
    assert link.log[-1].target.parameters == frozenset()


async def test_the_log_tells_the_form_that_was_asked_for(cluster: TestCluster) -> None:
    link = cluster.link()
    await link.client.list(metadata_of(ConfigMap))
    assert "as=PartialObjectMetadataList" in link.log[-1].accept


async def test_a_watch_that_the_server_refuses_has_no_events_to_disturb(cluster: TestCluster) -> None:
    link = cluster.link(FaultPlan(0, RepeatEvents()))
    with pytest.raises(NotFound):  # the answer is a line of text that begins with a number
        await link.client.rest.stream("GET", "/apis/example.com/v1/nothing", query="watch=true")
