"""A name is not a pod: what was started or opened for one ends with it, whoever has its name next."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .nodekit import KUBECTL, LocalCluster, Space, local_cluster, shims_in
from .test_pod_life import READY, condition

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
SLEEPER = "while :; do sleep 0.1; done"


def wait(test: Callable[[], Any], what: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not test():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def make(space: Space, name: str, script: str = SLEEPER, **container: Any) -> str:
    """Make a pod without waiting for anything; its uid."""
    main = {"name": "main", "image": "none", "command": ["sh", "-c", script], **container}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [main]}
    document = {"metadata": {"name": name}, "spec": spec}
    answer = space.cluster.call("POST", f"/api/v1/namespaces/{space.name}/pods", document)
    assert answer.status == 201, answer.text()
    return str(answer.json()["metadata"]["uid"])


def replace(space: Space, name: str, script: str = SLEEPER) -> str:
    """Delete a pod by force and make another of its name at once; the new one's uid."""
    path = f"/api/v1/namespaces/{space.name}/pods/{name}"
    assert space.cluster.call("DELETE", f"{path}?gracePeriodSeconds=0").status == 200
    return make(space, name, script)


def folder_of(cluster: LocalCluster, uid: str) -> Path:
    (found,) = cluster.folder.glob(f"quarterdeck/nodes/*/pods/{uid}")
    return found


def test_a_pod_replaced_while_it_starts_leaves_one_set_of_containers(space: Space) -> None:
    """At whatever moment: before anything is there, when the folder is, when the container begins."""
    moments: list[Callable[[str], bool]] = [
        lambda uid: True,
        lambda uid: any(space.cluster.folder.glob(f"quarterdeck/nodes/*/pods/{uid}/pod.json")),
        lambda uid: any(space.cluster.folder.glob(f"quarterdeck/nodes/*/pods/{uid}/c-main/0/launch.json")),
        lambda uid: any(space.cluster.folder.glob(f"quarterdeck/nodes/*/pods/{uid}/c-main/0/state.json")),
    ]
    for number, moment in enumerate(moments):
        name = f"twice-{number}"
        old = make(space, name)
        wait(lambda moment=moment, old=old: moment(old), "the pod does not start")  # type: ignore[misc]
        new = replace(space, name)
        space.phase(name, "Running")
        wait(lambda old=old: not shims_in(Path(old)), f"containers of the old pod are left: {number}")  # type: ignore[misc]
        assert shims_in(Path(new))
        assert not any(space.cluster.folder.glob(f"quarterdeck/nodes/*/pods/{old}"))


def test_what_was_opened_for_a_pod_ends_with_it_and_not_with_its_name(space: Space) -> None:
    talker = "while :; do echo word; sleep 0.1; done"
    make(space, "web", talker)
    space.until("web", lambda pod: condition(pod, READY) == "True")
    ways = {
        "exec": ("exec", "web", "--", "sh", "-c", talker),
        "logs": ("logs", "-f", "web"),
        "attach": ("attach", "web"),
        "port-forward": ("port-forward", "web", ":8080", "--address=127.0.0.1"),
    }
    where = (str(KUBECTL), "-n", space.name, "--kubeconfig", str(space.cluster.kubeconfig))
    opened = {
        name: subprocess.Popen([*where, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for name, words in ways.items()
    }
    try:
        for process in opened.values():
            assert process.stdout is not None
            assert process.stdout.readline().startswith((b"word", b"Forwarding", b"If you don't see"))
        replace(space, "web", talker)
        for name, process in opened.items():
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"{name} goes on without its pod") from None
    finally:
        for process in opened.values():
            process.kill()
            process.communicate()


def test_damaged_records_make_no_pod_immortal(space: Space) -> None:
    uid = make(space, "damaged")
    space.phase("damaged", "Running")
    folder = folder_of(space.cluster, uid)
    for name in ("pod.json", "c-main/0/state.json", "c-main/0/launch.json", "c-main/0/run.json"):
        (folder / name).write_bytes(b"")
    path = f"/api/v1/namespaces/{space.name}/pods/damaged"
    assert space.cluster.call("DELETE", path).status == 200
    wait(lambda: space.cluster.call("GET", path).status == 404, "the pod does not go")
    assert not shims_in(Path(uid))
    assert not folder.exists()


def test_a_node_begins_again_and_stops_with_damaged_records(tmp_path: Path) -> None:
    with local_cluster(tmp_path) as cluster, cluster.space("damage") as space:
        uids = {name: make(space, name) for name in ("state", "pod", "last")}
        for name in uids:
            space.phase(name, "Running")
        folders = {name: folder_of(cluster, uid) for name, uid in uids.items()}
        shims = {name: shims_in(folder) for name, folder in folders.items()}
        agent = cluster.agent()
        os.kill(agent, signal.SIGKILL)
        (folders["state"] / "c-main/0/state.json").write_bytes(b"")
        (folders["pod"] / "pod.json").write_bytes(b"")
        wait(lambda: cluster.agent() not in (0, agent), "the agent is not started again")
        wait(lambda: shims_in(folders["pod"]) not in ([], shims["pod"]), "the pod does not begin anew")
        space.phase("pod", "Running")
        space.phase("state", "Running")
        assert shims_in(folders["state"]) == shims["state"], "a container that runs goes on"
        assert shims_in(folders["last"]) == shims["last"]
        for name in ("last", "state"):
            (folders[name] / "c-main/0/state.json").write_bytes(b"")
    # ``local_cluster`` has looked for processes that were left.


def test_a_node_whose_terminal_is_closed_ends_its_pods(tmp_path: Path) -> None:
    with local_cluster(tmp_path) as cluster:
        space = Space(cluster, "default")
        wait(lambda: cluster.call("GET", f"{ACCOUNTS}/default").status == 200, "there is no account")
        make(space, "runs")
        space.phase("runs", "Running")
        cluster.hang_up()
