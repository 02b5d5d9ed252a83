"""Tables: ages, the pod's status word, cells as the real server prints them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quarterdeck.apiserver.builtin.print import printers
from quarterdeck.apiserver.builtin.print.text import age, human_duration
from quarterdeck.apiserver.builtins import facts
from tests.unit.apiserver.builtin.builtin_writepath import create

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUNNING: Json = {"running": {"startedAt": "2025-12-31T00:00:00Z"}}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (5, "5s"),
        (119, "119s"),
        (120, "2m"),
        (182, "3m2s"),
        (600, "10m"),
        (10740, "179m"),
        (10800, "3h"),
        (11100, "3h5m"),
        (8 * 3600, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (51 * 3600, "2d3h"),
        (8 * 86400, "8d"),
        (45 * 86400, "45d"),
        (729 * 86400, "729d"),
        (730 * 86400, "2y"),
        (731 * 86400, "2y1d"),
        (8 * 365 * 86400 + 5 * 86400, "8y"),
        (-1, "0s"),
        (-1.5, "0s"),
        (-2, "<invalid>"),
    ],
)
def test_ages(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def test_age_of_a_missing_or_odd_time_is_unknown() -> None:
    assert age(None, NOW) == "<unknown>"
    assert age("", NOW) == "<unknown>"
    assert age("yesterday", NOW) == "<unknown>"
    assert age("2025-12-31T23:59:00Z", NOW) == "60s"
    assert age("2025-12-31T23:59:00.250000Z", NOW) == "59s"


def pod(status: Json, spec: Json | None = None, **meta: Any) -> list[Any]:
    obj = {
        "metadata": {"name": "p", "creationTimestamp": "2025-12-31T23:55:00Z", **meta},
        "spec": {"containers": [{"name": "c"}, {"name": "d"}], **(spec or {})},
        "status": status,
    }
    return printers.cells("", "pods", obj, NOW)


def state(ready: bool = False, restarts: int = 0, last: str = "", **states: Any) -> Json:
    item: Json = {"name": "c", "ready": ready, "restartCount": restarts, "state": states}
    if last:
        item["lastState"] = {"terminated": {"exitCode": 1, "finishedAt": last}}
    return item


ENDED: Json = {"terminated": {"exitCode": 0, "reason": "Completed"}}
READY = {"type": "Ready", "status": "True"}


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        (
            {"phase": "Running", "containerStatuses": [state(waiting={"reason": "CrashLoopBackOff"})]},
            "CrashLoopBackOff",
        ),
        ({"phase": "Failed", "containerStatuses": [state(terminated={"exitCode": 3})]}, "ExitCode:3"),
        (
            {"phase": "Failed", "containerStatuses": [state(terminated={"exitCode": 0, "signal": 9})]},
            "Signal:9",
        ),
        ({"phase": "Succeeded", "containerStatuses": [state(**ENDED)]}, "Completed"),
        ({"phase": "Running", "containerStatuses": [state(**ENDED), state(True, **RUNNING)]}, "NotReady"),
        (
            {
                "phase": "Running",
                "conditions": [READY],
                "containerStatuses": [state(**ENDED), state(True, **RUNNING)],
            },
            "Running",
        ),
        (
            {
                "phase": "Failed",
                "containerStatuses": [state(**ENDED), state(terminated={"exitCode": 2, "reason": "Error"})],
            },
            "Error",
        ),
        (
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            "SchedulingGated",
        ),
    ],
)
def test_status_word_of_a_pod(status: Json, word: str) -> None:
    assert pod(status)[2] == word


INIT = {"initContainers": [{"name": "a"}, {"name": "b"}]}


@pytest.mark.parametrize(
    ("statuses", "word"),
    [
        ([{**state(terminated={"exitCode": 0}), "name": "a"}, {**state(**RUNNING), "name": "b"}], "Init:1/2"),
        ([{**state(waiting={"reason": "PodInitializing"}), "name": "a"}], "Init:0/2"),
        ([{**state(waiting={"reason": "ErrImagePull"}), "name": "a"}], "Init:ErrImagePull"),
        ([{**state(terminated={"exitCode": 2}), "name": "a"}], "Init:ExitCode:2"),
        ([{**state(terminated={"exitCode": 2, "signal": 9}), "name": "a"}], "Init:Signal:9"),
        ([{**state(terminated={"exitCode": 2, "reason": "Error"}), "name": "a"}], "Init:Error"),
    ],
)
def test_status_word_while_initializing(statuses: list[Json], word: str) -> None:
    assert pod({"phase": "Pending", "initContainerStatuses": statuses}, INIT)[2] == word


def test_a_deleted_pod_terminates_unless_it_is_lost_or_done() -> None:
    deleted: Json = {"deletionTimestamp": "2026-01-01T00:00:30Z"}
    assert pod({"phase": "Running"}, **deleted)[2] == "Terminating"
    assert pod({"phase": "Running", "reason": "NodeLost"}, **deleted)[2] == "Unknown"
    assert pod({"phase": "Succeeded"}, **deleted)[2] == "Succeeded"


def test_ready_counts_and_restarts() -> None:
    statuses = [state(True, **RUNNING), state(True, 3, "2025-12-31T23:00:00Z", **RUNNING)]
    cells = pod(
        {"phase": "Running", "podIPs": [{"ip": "1.2.3.4"}], "containerStatuses": statuses}, {"nodeName": "n"}
    )
    assert cells == ["p", "2/2", "Running", "3 (60m ago)", "5m", "1.2.3.4", "n", "<none>", "<none>"]


def test_sidecars_count_among_the_ready() -> None:
    sidecar = {**state(True, 4, **RUNNING), "name": "a", "started": True}
    cells = pod(
        {
            "phase": "Running",
            "initContainerStatuses": [sidecar],
            "containerStatuses": [state(True, 1, **RUNNING)],
        },
        {"initContainers": [{"name": "a", "restartPolicy": "Always"}]},
    )
    assert cells[1:4] == ["2/3", "Running", "5"]


def test_readiness_gates_are_counted() -> None:
    gates = {"readinessGates": [{"conditionType": "q"}, {"conditionType": "x"}]}
    assert pod({"conditions": [{"type": "q", "status": "True"}]}, gates)[8] == "1/2"


def test_finished_pods_mark_their_row() -> None:
    [mark] = printers.row_conditions("", "pods", {"status": {"phase": "Succeeded"}})
    assert mark["message"] == "The pod has completed successfully."
    assert printers.row_conditions("", "pods", {"status": {"phase": "Running"}}) == []
    assert printers.row_conditions("", "nodes", {"status": {"phase": "Failed"}}) == []


@pytest.mark.parametrize(
    ("conditions", "meta", "word"),
    [
        (["Complete"], {}, "Complete"),
        (["FailureTarget", "Failed"], {}, "Failed"),
        (["Suspended"], {"deletionTimestamp": "x"}, "Terminating"),
        (["Suspended"], {}, "Suspended"),
        (["FailureTarget"], {}, "FailureTarget"),
        (["SuccessCriteriaMet"], {}, "SuccessCriteriaMet"),
        ([], {}, "Running"),
    ],
)
def test_status_word_of_a_job(conditions: list[str], meta: Json, word: str) -> None:
    job = {
        "metadata": {"name": "j", **meta},
        "status": {"conditions": [{"type": kind, "status": "True"} for kind in conditions]},
    }
    assert printers.cells("batch", "jobs", job, NOW)[1] == word


def test_every_resource_has_one_cell_per_column() -> None:
    for group in facts().groups:
        for version in group.versions:
            for known in version.resources:
                if "list" not in known.verbs:
                    continue
                cells = printers.cells(group.group, known.name, {"metadata": {"name": "x"}}, NOW)
                columns = printers.columns(group.group, known.name)
                # upstream prints an age for IPAddress without a column for it
                assert len(cells) - (known.name == "ipaddresses") == len(columns), known.name


def test_wide_columns_have_priority_one() -> None:
    columns = printers.columns("", "pods")
    assert [column["name"] for column in columns if column["priority"]] == [
        "IP",
        "Node",
        "Nominated Node",
        "Readiness Gates",
    ]
    assert columns[0] == {
        "name": "Name",
        "type": "string",
        "format": "name",
        "description": "Name must be unique within a namespace.",
        "priority": 0,
    }


def test_both_shapes_of_an_event_print_alike() -> None:
    core = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p"},
        "message": " hello ",
        "count": 3,
        "source": {"component": "kubelet", "host": "n1"},
        "lastTimestamp": "2025-12-31T23:59:00Z",
        "type": "Normal",
        "reason": "R",
    }
    renamed = {
        "metadata": {"name": "e"},
        "regarding": core["involvedObject"],
        "note": core["message"],
        "deprecatedCount": 3,
        "deprecatedSource": core["source"],
        "deprecatedLastTimestamp": core["lastTimestamp"],
        "type": "Normal",
        "reason": "R",
    }
    cells = printers.cells("", "events", core, NOW)
    assert cells == printers.cells("events.k8s.io", "events", renamed, NOW)
    assert cells[:7] == ["60s", "Normal", "R", "pod/p", "", "kubelet, n1", "hello"]


def test_service_cells() -> None:
    path = "/api/v1/namespaces/ns/services"
    ports = [{"port": 80, "name": "a"}, {"port": 443, "name": "b", "protocol": "UDP"}]
    made = create(path, {"metadata": {"name": "s"}, "spec": {"clusterIP": "10.0.0.9", "ports": ports}})
    cells = printers.cells("", "services", made, NOW + timedelta(seconds=5))
    assert cells == ["s", "ClusterIP", "10.0.0.9", "<none>", "80/TCP,443/UDP", "5s", "<none>"]
