"""The ring of the last hours, and one object in full."""

from __future__ import annotations

from typing import Any

from quarterdeck.dashboard.history import History
from quarterdeck.dashboard.inspection import inspection, kind_named

Json = dict[str, Any]


def gang(queue: str, gpus: float, restarts: int = 0) -> Json:
    return {"queue": queue, "placedGpus": gpus, "restarts": restarts}


def test_samples_say_who_had_how_many_gpus_and_are_bounded() -> None:
    history = History()
    gangs = {f"team/gang-{number}": gang("research" if number % 2 else "", 2.0) for number in range(30)}
    sections = {"gangs": gangs, "nodes": {"a": {"gpus": 64}}}
    for number in range(1000):
        history.take(f"t{number}", sections, {})
    samples = history.told()["samples"]
    assert (len(samples), samples[-1]["time"], samples[0]["time"]) == (720, "t999", "t280")
    assert samples[-1]["queues"] == {"no queue": 30.0, "research": 30.0}
    assert samples[-1]["gangs"]["others"] == 20.0
    assert len(samples[-1]["gangs"]) == 21


def test_an_eviction_is_told_once_and_restarts_are_counted_from_the_first_sample_on() -> None:
    history = History()
    event = {"time": "t", "reason": "Evict", "kind": "PodGroup", "about": "team/a", "message": "for team/b"}
    for restarts in (3, 5, 5):
        history.take("now", {"gangs": {"team/a": gang("q", 0, restarts)}}, {"events": {"e": event}})
    assert history.told()["happenings"] == [
        {"time": "t", "what": "evicted", "gang": "team/a", "text": "for team/b"},
        {"time": "now", "what": "restarted", "gang": "team/a", "text": "2 times"},
    ]


def test_an_object_has_its_own_events_owner_commands_and_readable_yaml() -> None:
    pod: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "a",
            "namespace": "team",
            "managedFields": [{"manager": "x"}],
            "ownerReferences": [{"kind": "Job", "apiVersion": "batch/v1", "name": "j"}],
        },
        "spec": {"initContainers": [{"name": "init"}], "containers": [{"name": "main"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    events = [{"kind": "Pod", "about": "team/a"}, {"kind": "Pod", "about": "team/b"}]
    found = inspection(pod, events, [])
    assert found["events"] == events[:1]
    assert found["owners"] == [{"kind": "Job", "apiVersion": "batch/v1", "namespace": "team", "name": "j"}]
    assert "kubectl logs pod/a -n team --previous" in found["commands"]
    assert "managedFields" not in found["yaml"]
    assert (found["state"], found["containers"]) == ("Running", ["init", "main"])


def test_what_is_secret_is_not_shown() -> None:
    secret = {
        "kind": "Secret",
        "metadata": {"name": "s", "annotations": {"last": "aGVsbG8="}},
        "data": {"k": "aGVsbG8="},
    }
    text = inspection(secret, (), ())["yaml"]
    assert "aGVsbG8=" not in text
    assert "k: not shown" in text


def test_a_kind_is_known_by_name_or_by_its_version() -> None:
    assert str(kind_named("PodGroup", "").group) == "scheduling.run.ai"
    assert kind_named("Widget", "") is None
    assert kind_named("Widget", "example.com/v1").version == "v1"
