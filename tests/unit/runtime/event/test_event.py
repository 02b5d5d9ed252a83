"""Events: what is written, what is counted, what is left out."""

from __future__ import annotations

import asyncio
import enum
import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from quarterdeck.api import ObjectMeta, value_or
from quarterdeck.api.instant import MicroTime
from quarterdeck.api.k8s import Namespace, core, events
from quarterdeck.api.k8s.reference import ObjectReference
from quarterdeck.apiserver import ApiServer
from quarterdeck.client import Call, Client, Response
from quarterdeck.client.call import Proceed
from quarterdeck.errors import AlreadyExists
from quarterdeck.runtime.event import EventBroadcaster, correlation
from quarterdeck.runtime.event.broadcaster import WRITERS
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.testing import FaultPlan, Latency, intercept
from tests.unit.runtime.servicekit import Gang, client_of, embedded, link_to

pytestmark = pytest.mark.virtual_time
COMBINED = "(combined from similar events): "


def gang(name: str = "train", namespace: str = "default", version: str = "7") -> Gang:
    return Gang(metadata=ObjectMeta(name=name, namespace=namespace, uid="1f6e6f7e", resource_version=version))


def broadcaster(client: Client, **options: Any) -> EventBroadcaster:
    return EventBroadcaster(client, host="node-1", rng=random.Random(1), **options)


async def written(server: ApiServer, namespace: str = "default") -> list[events.Event]:
    return list(await client_of(server).list(events.Event, namespace=namespace))


async def legacy(server: ApiServer) -> list[core.Event]:
    return sorted(
        await client_of(server).list(core.Event, namespace="default"), key=lambda event: event.metadata.name
    )


async def test_an_event_says_who_what_where() -> None:
    async with embedded() as server, broadcaster(client_of(server)) as events_:
        recorder = events_.recorder("gang-controller")
        related = gang("other")
        recorder.event(gang(), "Warning", "Unschedulable", "Schedule", "no room", related=related)
        await asyncio.sleep(1)
        [event] = await written(server)
        assert event.metadata.name.startswith("train.")
        int(event.metadata.name.removeprefix("train."), 16)
        assert (event.type, event.reason, event.action, event.note) == (
            "Warning",
            "Unschedulable",
            "Schedule",
            "no room",
        )
        assert event.reporting_controller == "gang-controller"
        assert event.reporting_instance == "gang-controller-node-1"
        assert (event.regarding.kind, event.regarding.api_version) == ("Gang", "example.io/v1")
        assert (event.regarding.name, event.regarding.namespace, event.regarding.uid) == (
            "train",
            "default",
            "1f6e6f7e",
        )
        assert event.related
        assert event.related.name == "other"
        assert not event.series


async def test_events_of_cluster_scoped_objects_live_in_default_and_odd_names_become_uuids() -> None:
    async with embedded() as server, broadcaster(client_of(server)) as events_:
        recorder = events_.recorder("c")
        recorder.event(Namespace(metadata=ObjectMeta(name="team-a")), "Normal", "Made", "Make", "")
        recorder.event(Namespace(metadata=ObjectMeta(name="system:Odd")), "Normal", "Made", "Make", "")
        await asyncio.sleep(1)
        found = {event.regarding.name: event.metadata for event in await written(server)}
        assert found["team-a"].name.startswith("team-a.")
        assert len(found["system:Odd"].name) == 36


async def test_series_second_event_patches_later_ones_wait_and_a_quiet_series_ends() -> None:
    async with embedded() as server:
        link = link_to(server)
        async with broadcaster(link.client) as events_:
            recorder = events_.recorder("c")

            def say(note: str, version: str) -> None:
                recorder.event(gang(version=version), "Normal", "Scaled", "Scale", note)

            say("first", "1")
            await asyncio.sleep(1)
            say("second", "2")
            await asyncio.sleep(1)
            [event] = await written(server)
            assert event.series
            assert event.series.count == 2
            assert event.note == "first", "the note is not part of the series"
            requests = [each.verb for each in link.log]
            assert requests == ["create", "patch"]
            for _ in range(350):
                say("again", "3")
                await asyncio.sleep(4)  # never quiet for six minutes
            assert [each.verb for each in link.log] == requests, "counted in memory only"
            for _ in range(120):
                say("again", "3")
                await asyncio.sleep(4)
            [event] = await written(server)
            assert event.series
            assert 400 < (event.series.count or 0) <= 472, "refreshed after half an hour"
            await asyncio.sleep(800)
            [event] = await written(server)
            assert event.series
            assert event.series.count == 472, "the last write of a quiet series"
            say("anew", "4")
            await asyncio.sleep(1)
            assert len(await written(server)) == 2, "after the end a new event begins"


async def test_a_series_whose_event_is_gone_is_created_anew() -> None:
    async with embedded() as server, broadcaster(client_of(server)) as events_:
        recorder = events_.recorder("c")
        recorder.event(gang(), "Normal", "Scaled", "Scale", "")
        await asyncio.sleep(1)
        [event] = await written(server)
        await client_of(server).delete(event)
        recorder.event(gang(), "Normal", "Scaled", "Scale", "")
        await asyncio.sleep(1)
        [event] = await written(server)
        assert event.series
        assert event.series.count == 2


async def test_a_series_that_somebody_else_creates_meanwhile_is_tried_again() -> None:
    answers: list[Exception | None] = [None, AlreadyExists("somebody was faster"), None]

    async def create(call: Call, proceed: Proceed) -> Response:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return await proceed(call)

    async with embedded() as server, broadcaster(intercept(client_of(server), create=create)) as events_:
        recorder = events_.recorder("c")
        for _ in range(2):
            recorder.event(gang(), "Normal", "Scaled", "Scale", "")
            await asyncio.sleep(1)
            [event] = await written(server)
            await client_of(server).delete(event)
    assert answers == []


async def test_events_of_a_namespace_that_goes_are_no_loss() -> None:
    metrics = RuntimeMetrics()
    async with embedded() as server, broadcaster(client_of(server), metrics=metrics) as events_:
        await client_of(server).create(Namespace(metadata=ObjectMeta(name="going")))
        await client_of(server).delete(Namespace, "going")
        events_.recorder("c").event(gang(namespace="going"), "Normal", "Scaled", "Scale", "")
        await asyncio.sleep(1)
        assert await written(server, "going") == []
        assert metrics.events_dropped.value == 0
        events_.recorder("c").event(gang(namespace="nowhere"), "Normal", "Scaled", "Scale", "")
        await asyncio.sleep(1)
        assert metrics.events_dropped.value == 1


async def test_legacy_identical_events_are_counted_on_the_first_one() -> None:
    async with embedded() as server:
        link = link_to(server)
        async with broadcaster(link.client, api="core") as events_:
            recorder = events_.recorder("c")
            for _ in range(3):
                recorder.event(gang(), "Normal", "Scaled", "Scale", "same")
                await asyncio.sleep(10)
            [event] = await legacy(server)
            assert event.count == 3
            assert event.first_timestamp != event.last_timestamp
            assert event.source.component == "c"
            assert event.source.host == "node-1"
            assert [each.verb for each in link.log] == ["create", "patch", "patch"]
            await client_of(server).delete(event)
            recorder.event(gang(), "Normal", "Scaled", "Scale", "same")
            await asyncio.sleep(1)
            [event] = await legacy(server)
            assert event.count == 4, "if it is gone it is created anew"


async def test_events_of_both_forms_are_read_as_counts_and_as_series() -> None:
    async with embedded() as server, broadcaster(client_of(server), api="both") as events_:
        recorder = events_.recorder("c")
        recorder.event(gang(), "Normal", "Scaled", "Scale", "same")
        await asyncio.sleep(10)
        [first] = await written(server)
        assert not first.series
        recorder.event(gang(), "Normal", "Scaled", "Scale", "same")
        await asyncio.sleep(1)
        [counted], [event] = await legacy(server), await written(server)
        assert counted.count == 2
        assert counted.last_timestamp
        assert event.series
        assert event.series.count == 2
        assert event.series.last_observed_time == MicroTime.of_timestamp(counted.last_timestamp.timestamp())


async def test_as_many_events_as_there_is_room_for_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(correlation, "MAX_KEYS", 3)
    correlator = correlation.Correlator(now=lambda: 0.0, make_name=lambda name: f"{name}.1")

    def count(reason: str) -> int:
        about = ObjectReference(kind="Gang", name="train", namespace="default")
        found = correlator.correlate(
            core.Event(involved_object=about, reason=reason, message=reason, count=1)
        )
        assert found is not None
        return value_or(found.event.count, 0)

    assert [count(reason) for reason in ("A", "B", "C", "A")] == [1, 1, 1, 2]
    assert [count(reason) for reason in ("D", "A", "B")] == [1, 3, 1], "the one that waited longest goes"


async def test_ten_different_messages_become_one_event() -> None:
    async with embedded() as server, broadcaster(client_of(server), api="core") as events_:
        recorder = events_.recorder("c")
        for index in range(14):
            recorder.event(gang(), "Normal", "Scaled", "Scale", f"message {index}")
            await asyncio.sleep(1)
        found = await legacy(server)
        combined = [event for event in found if event.message.startswith(COMBINED)]
        assert len(found) == 10
        assert len(combined) == 1
        assert combined[0].count == 5
        assert combined[0].message == f"{COMBINED}message 13"
        await asyncio.sleep(601)
        recorder.event(gang(), "Normal", "Scaled", "Scale", "after ten quiet minutes")
        await asyncio.sleep(1)
        assert "after ten quiet minutes" in [event.message for event in await legacy(server)]


async def test_burst_beyond_25_is_dropped_and_refills_one_every_five_minutes() -> None:
    async with embedded() as server:
        link, metrics = link_to(server), RuntimeMetrics()
        async with broadcaster(link.client, api="core", metrics=metrics) as events_:
            recorder = events_.recorder("c")
            for _ in range(40):
                recorder.event(gang(), "Normal", "Scaled", "Scale", "same")
            await asyncio.sleep(1)
            assert len(link.log) == 25
            assert metrics.events_dropped.value == 15
            recorder.event(gang(), "Warning", "Scaled", "Scale", "another type has its own budget")
            recorder.event(gang("other"), "Normal", "Scaled", "Scale", "so has another object")
            await asyncio.sleep(1)
            assert len(link.log) == 27
            await asyncio.sleep(300)
            for _ in range(3):
                recorder.event(gang(), "Normal", "Scaled", "Scale", "same")
            await asyncio.sleep(1)
            assert len(link.log) == 28


async def test_a_full_queue_drops_and_counts_and_never_blocks() -> None:
    async with embedded() as server:
        metrics = RuntimeMetrics()
        events_ = broadcaster(client_of(server), metrics=metrics, queue_size=1000)
        recorder = events_.recorder("c")
        for index in range(1100):
            assert recorder.has_room == (index < 500), "the last half is for those who cannot wait"
            recorder.event(gang(f"g-{index}"), "Normal", "Made", "Make", "")
        assert metrics.events_dropped.value == 100
        async with events_:
            await asyncio.sleep(1)
        assert len(await written(server)) == 1000


def warnings(caplog: pytest.LogCaptureFixture) -> list[tuple[str, dict[str, Any]]]:
    return [
        (record.message, record.__dict__["fields"])
        for record in caplog.records
        if record.name.startswith("quarterdeck.runtime.event")
    ]


async def test_one_warning_a_minute_counts_what_was_dropped(caplog: pytest.LogCaptureFixture) -> None:
    async with embedded() as server, broadcaster(client_of(server), queue_size=10) as events_:
        recorder = events_.recorder("c")

        def burst(name: str) -> None:
            for index in range(100):
                recorder.event(gang(f"{name}-{index}"), "Normal", "Made", "Make", "")

        dropped = "Unable to record event: too many queued events, dropped event"
        burst("a")
        await asyncio.sleep(1)
        assert warnings(caplog) == [(dropped, {"count": 90})]
        burst("b")
        await asyncio.sleep(1)
        burst("c")
        await asyncio.sleep(1)
        assert len(warnings(caplog)) == 1
        await asyncio.sleep(60)
        assert warnings(caplog)[1:] == [(dropped, {"count": 180})]
        assert len(await written(server)) == 30


async def test_refusals_of_one_kind_are_warned_of_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async with embedded() as server:
        metrics = RuntimeMetrics()
        async with broadcaster(client_of(server), metrics=metrics) as events_:
            recorder = events_.recorder("c")
            for index in range(30):
                recorder.event(gang(f"g-{index}", "nowhere"), "Normal", "Made", "Make", "")
            await asyncio.sleep(61)
            recorder.event(gang("last", "nowhere"), "Normal", "Made", "Make", "")
            await asyncio.sleep(1)
        said = warnings(caplog)
        assert [text for text, _ in said] == ["Server rejected event (will not retry!)"] * 2
        assert "before" not in said[0][1]
        assert said[1][1]["before"] == 29
        assert metrics.events_dropped.value == 31


async def test_a_few_events_are_written_at_a_time() -> None:
    async with embedded() as server:
        link = link_to(server, FaultPlan(0, Latency((1.0, 1.0))))
        async with broadcaster(link.client) as events_:
            recorder = events_.recorder("c")
            for index in range(4 * WRITERS):
                recorder.event(gang(f"g-{index}"), "Normal", "Made", "Make", "")
            await asyncio.sleep(4.5)
            begun = Counter(round(each.at, 3) for each in link.log)
            assert max(begun.values()) == WRITERS
            assert len(await written(server)) == 4 * WRITERS


async def test_writes_of_one_event_keep_their_order() -> None:
    async with embedded() as server:
        link = link_to(server, FaultPlan(0, Latency((1.0, 1.0))))
        async with broadcaster(link.client, api="core") as events_:
            recorder = events_.recorder("c")
            for _ in range(3):
                for name in ("a", "b"):
                    recorder.event(gang(name), "Normal", "Scaled", "Scale", "same")
            await asyncio.sleep(3.5)
            assert [each.verb for each in link.log] == ["create"] * 2 + ["patch"] * 4
            assert [event.count for event in await legacy(server)] == [3, 3]


async def test_a_burst_about_one_thing_takes_two_writes_and_no_room() -> None:
    async with embedded() as server:
        link, metrics = link_to(server), RuntimeMetrics()
        async with broadcaster(link.client, metrics=metrics) as events_:
            recorder = events_.recorder("c")
            for _ in range(10_000):
                recorder.event(gang(), "Normal", "Scaled", "Scale", "")
            await asyncio.sleep(1)
            assert [each.verb for each in link.log] == ["create", "patch"]
        [event] = await written(server)
        assert event.series
        assert event.series.count == 10_000
        assert metrics.events_dropped.value == 0


async def test_a_series_whose_first_event_was_dropped_is_created_by_the_second() -> None:
    async with embedded() as server, broadcaster(client_of(server), queue_size=1) as events_:
        recorder = events_.recorder("c")
        for name in ("other", "train"):
            recorder.event(gang(name), "Normal", "Scaled", "Scale", "")
        await asyncio.sleep(1)
        assert [event.regarding.name for event in await written(server)] == ["other"]
        recorder.event(gang(), "Normal", "Scaled", "Scale", "")
        await asyncio.sleep(1)
        found = {event.regarding.name: event for event in await written(server)}
        assert found["train"].series
        assert found["train"].series.count == 2


async def test_an_unreachable_server_is_tried_twelve_times() -> None:
    async with embedded() as server:
        link, metrics = link_to(server), RuntimeMetrics()
        async with broadcaster(link.client, metrics=metrics) as events_:
            link.cut()
            started = asyncio.get_running_loop().time()
            events_.recorder("c").event(gang(), "Normal", "Made", "Make", "")
            await asyncio.sleep(600)
            attempts = [each.at for each in link.log if not each.status]
            assert len(attempts) == 12
            gaps = [b - a for a, b in pairwise(attempts)]
            assert attempts[0] == started
            assert 0 < gaps[0] < 10, "the first wait is random"
            assert gaps[1:] == pytest.approx([10.0] * 10)
            assert metrics.events_dropped.value == 1
            link.restore()
            events_.recorder("c").event(gang("later"), "Normal", "Made", "Make", "")
            await asyncio.sleep(1)
            assert [event.regarding.name for event in await written(server)] == ["later"]


async def test_what_the_server_refuses_is_final() -> None:
    async with embedded() as server:
        link, metrics = link_to(server), RuntimeMetrics()
        async with broadcaster(link.client, metrics=metrics) as events_:
            events_.recorder("c").event(gang(namespace="nowhere"), "Normal", "Made", "Make", "")
            await asyncio.sleep(600)
        assert len(link.log) == 1
        assert metrics.events_dropped.value == 1


async def test_stopping_writes_what_is_queued_and_the_counts_of_open_series() -> None:
    async with embedded() as server:
        async with broadcaster(client_of(server)) as events_:
            recorder = events_.recorder("c")
            for _ in range(5):
                recorder.event(gang(), "Normal", "Scaled", "Scale", "")
            recorder.event(gang("late"), "Normal", "Made", "Make", "")
        found = {event.regarding.name: event for event in await written(server)}
        assert found["late"]
        assert found["train"].series
        assert found["train"].series.count == 5


async def test_stopping_takes_no_longer_than_the_grace_period() -> None:
    async with embedded() as server:
        link, metrics = link_to(server), RuntimeMetrics()
        link.cut(silently=True)
        events_ = broadcaster(link.client, metrics=metrics, flush_grace=3.0)
        await events_.start()
        recorder = events_.recorder("c")
        for index in range(4):
            recorder.event(gang(f"g-{index}"), "Normal", "Made", "Make", "")
        before = asyncio.get_running_loop().time()
        await events_.stop()
        assert asyncio.get_running_loop().time() - before == pytest.approx(3.0)
        assert metrics.events_dropped.value == 4


async def test_events_may_be_recorded_from_a_thread() -> None:
    async with embedded() as server, broadcaster(client_of(server)) as events_:
        recorder = events_.recorder("c")
        await asyncio.to_thread(recorder.event, gang("threaded"), "Normal", "Made", "Make", "")
        await asyncio.sleep(1)
        assert [event.regarding.name for event in await written(server)] == ["threaded"]


class Reasons(enum.Enum):
    SCALED = "Scaled"


async def test_types_and_declared_reasons_are_checked_and_long_notes_cut() -> None:
    async with embedded() as server, broadcaster(client_of(server)) as events_:
        recorder = events_.recorder("c", reasons=Reasons)
        with pytest.raises(ValueError, match="must be Normal or Warning"):
            recorder.event(gang(), "Error", "Scaled", "Scale", "")  # type: ignore[arg-type]  # the point
        with pytest.raises(ValueError, match='"Shrunk" is not among the declared event reasons of c'):
            recorder.event(gang(), "Normal", "Shrunk", "Scale", "")
        recorder.event(gang(), "Normal", Reasons.SCALED, "Scale", "x" * 5000)
        await asyncio.sleep(1)
        [event] = await written(server)
        assert len(event.note) == 1024
        assert event.note.endswith("...")
