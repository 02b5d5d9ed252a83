"""What puts a pool on the PoolStatus queue, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import Key
from quarterdeck.operators.ipam.controllers.poolstatus import TIMEOUT, pool_status_limiter
from quarterdeck.operators.ipam.controllers.subnet import ParentPoolMapper, parent_of
from quarterdeck.operators.ipam.metrics import IpamMetrics
from quarterdeck.operators.ipam.settings import IpamSettings
from quarterdeck.operators.ipam.types import Subnet
from quarterdeck.runtime.metrics import Registry
from tests.harness.ipam.queue import PoolStatusSubject, QueueRun, next_delay

PARENT = "plexaubnet.io/parent"


def subnet(
    pool: str | None = "p", *, namespace: str = "ns", generation: int = 1, **more: Any
) -> dict[str, Any]:
    spec = {"cidr": "10.0.0.0/24", "clusterID": "c"} | ({"poolRef": pool} if pool is not None else {})
    metadata = {"name": "s", "namespace": namespace, "generation": generation}
    return {
        "apiVersion": "plexaubnet.io/v1alpha1",
        "kind": "Subnet",
        "metadata": metadata,
        "spec": spec,
        **more,
    }


def pool(
    name: str = "child", parent: str | None = None, *, cidr: str = "10.0.0.0/20", **head: Any
) -> dict[str, Any]:
    labels = {"labels": {PARENT: parent}} if parent is not None else {}
    metadata = {"name": name, "namespace": "ns", "generation": 1, **labels, **head}
    return {
        "apiVersion": "plexaubnet.io/v1alpha1",
        "kind": "SubnetPool",
        "metadata": metadata,
        "spec": {"cidr": cidr},
    }


def added(obj: dict[str, Any]) -> dict[str, Any]:
    return {"type": "ADDED", "object": obj}


def modified(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return {"type": "MODIFIED", "old": old, "object": new}


def deleted(obj: dict[str, Any]) -> dict[str, Any]:
    return {"type": "DELETED", "object": obj}


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        (added(subnet()), {"p"}),
        (added(subnet(None)), set()),
        (added(subnet("")), set()),
        (deleted(subnet()), {"p"}),
        ({"type": "DELETED", "tombstone": {"key": "ns/s", "object": subnet()}}, {"p"}),
        ({"type": "DELETED", "tombstone": {"key": "ns/s", "object": None}}, set()),
        (modified(subnet(), subnet("q", generation=2)), {"p", "q"}),
        (modified(subnet(), subnet(status={"phase": "Failed"})), set()),
        ({"type": "GENERIC", "object": subnet()}, {"p"}),
        (added({k: v for k, v in subnet().items() if k != "spec"}), set()),
        # pools
        (added(pool()), {"child"}),
        (added(pool(parent="top")), {"child", "top"}),
        (added(pool(parent="")), {"child"}),
        (deleted(pool(parent="top")), {"child", "top"}),
        (modified(pool(parent="top"), pool(parent="other")), {"child", "top", "other"}),
        (modified(pool(), pool(parent="top")), {"child", "top"}),
        (modified(pool(parent="top"), pool()), {"child", "top"}),
        (modified(pool(parent="top"), pool(parent="top", generation=2)), {"child"}),
        (modified(pool(parent="top"), pool(parent="top", cidr="10.0.0.0/19")), {"top"}),
        (
            modified(pool(parent="top"), pool(parent="top", cidr="10.0.0.0/19", generation=2)),
            {"child", "top"},
        ),
        (
            modified(
                pool(parent="top"), pool(parent="top", generation=2, deletionTimestamp="2030-01-01T00:00:00Z")
            ),
            {"child", "top"},
        ),
        (modified(pool(parent="top"), pool(parent="top", annotations={"a": "b"})), set()),
        (
            added({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "ns"}}),
            set(),
        ),
    ],
)
def test_keys_of_an_event(event: dict[str, Any], wanted: set[str]) -> None:
    assert PoolStatusSubject().feed(event) == {Key("ns", name) for name in wanted}


@pytest.mark.parametrize(
    ("event", "counted"),
    [
        (added(subnet()), {"create": 1}),
        (modified(subnet(), subnet(generation=2)), {"update": 1}),
        (modified(subnet(), subnet("q", generation=2)), {"update": 2}),
        (deleted(subnet()), {"delete": 1}),
        (added(pool(parent="top")), {"child_create": 1}),
        (modified(pool(parent="top"), pool(parent="new")), {"child_update": 2}),
        (deleted(pool(parent="top")), {"child_delete": 1}),
        (added(pool()), {}),
    ],
)
def test_requeues_are_counted_by_what_the_watch_said(event: dict[str, Any], counted: dict[str, int]) -> None:
    subject = PoolStatusSubject()
    subject.feed(event)
    found = {
        labels["event_type"]: value
        for name, labels, value in subject.samples()
        if name == "subnetpool_parent_requeue_total" and value
    }
    assert found == counted


def test_events_of_children_can_be_dropped_while_their_parent_is_idle() -> None:
    subject = PoolStatusSubject(IpamSettings(drop_idle_child_events=True))
    assert subject.feed(deleted(pool(parent="top"))) == {Key("ns", "child")}
    subject.feed(added(pool("top")))  # its status is yet to be written
    assert subject.feed(deleted(pool(parent="top"))) == {Key("ns", "child"), Key("ns", "top")}


def test_a_subnet_without_namespace_has_no_parent() -> None:
    assert parent_of(Subnet.from_dict(subnet(namespace=""))) is None
    assert parent_of(object()) is None


def test_the_mapper_never_raises_and_logs_what_it_could_not_read(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        change = None

        @property
        def object(self) -> Any:
            raise ValueError("unreadable")

    assert ParentPoolMapper(IpamMetrics(Registry())).keys(Broken(), None) == ()  # type: ignore[arg-type]
    assert [record.getMessage() for record in caplog.records] == ["mapping Subnet→Pool failed"]


def test_delays_of_the_design() -> None:
    wanted = [50, 75, 112.5, 168.75, 253.125]
    assert [next_delay({"consecutiveFailures": n}) * 1000 for n in range(5)] == pytest.approx(wanted)
    assert next_delay({"consecutiveFailures": 16}) == 30.0
    assert next_delay({"sequence": ["fail", "fail", "success", "fail"]}) == pytest.approx(0.05)
    assert next_delay({"sequence": ["fail", "fail", "success"]}) == pytest.approx(0.05)


def test_after_a_hundred_retries_at_once_the_bucket_holds_the_others_back() -> None:
    limiter = pool_status_limiter()
    delays = [limiter.when(Key("ns", str(number))) for number in range(103)]
    assert set(delays[:100]) == {0.05}
    assert delays[100:] == pytest.approx([0.1, 0.2, 0.3], abs=0.05)


def test_the_controller_is_built_as_the_design_says() -> None:
    controller = PoolStatusSubject().controller
    assert controller.name == "PoolStatus"
    limiter = controller._limiter
    assert limiter is not None
    assert [limiter.when(Key("ns", "p")) for _ in range(3)] == pytest.approx([0.05, 0.075, 0.1125])
    assert (controller.options.max_concurrent_reconciles, controller.options.reconcile_timeout) == (
        5,
        TIMEOUT,
    )
    assert TIMEOUT == 90.0


def test_bursts_coalesce() -> None:
    run = QueueRun({"workersPaused": True})
    run.run(["ns/p"] * 100 + ["ns/q"])
    assert (run.depth, dict(run.runs)) == (2, {"ns/p": 1, "ns/q": 1})
    again = QueueRun({"processing": "ns/p"})
    again.run(["ns/p"] * 50)
    assert dict(again.runs) == {"ns/p": 1}
