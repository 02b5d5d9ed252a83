"""Pods and what is known of their containers, for tests of pure rules."""

from __future__ import annotations

from typing import Any

import msgspec

from quarterdeck.api import decode
from quarterdeck.api.k8s import Pod
from quarterdeck.cluster.agent.record.view import ContainerView, PodSight, Run

NOW = 1_000_000.0


def pod(*containers: str, inits: tuple[dict[str, Any], ...] = (), **spec: Any) -> Pod:
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"app": "x"}, "generation": 2},
        "spec": {
            "initContainers": list(inits),
            "containers": [{"name": each, "image": "i"} for each in containers or ("main",)],
            "restartPolicy": "Always",
            **spec,
        },
    }
    return decode(msgspec.json.encode(document), Pod)


def running(*, number: int = 0, since: float = NOW - 5) -> Run:
    return Run(number=number, created=since, started=since)


def ended(
    code: int = 0, *, number: int = 0, attempt: int = 0, at: float = NOW, ran: float = 1.0, **more: Any
) -> Run:
    return Run(
        number=number,
        attempt=attempt,
        created=at - ran,
        started=at - ran,
        is_ended=True,
        code=code,
        finished=at,
        **more,
    )


def sight(now: float = NOW, **runs: Run | ContainerView | None) -> PodSight:
    def view(run: Run | None) -> ContainerView:
        rested = now - run.finished if run is not None and run.is_ended else 0.0
        return ContainerView(run=run, is_ready=True, has_started=True, rested=rested)

    views = {name: each if isinstance(each, ContainerView) else view(each) for name, each in runs.items()}
    return PodSight(containers=views, now=now, steady=now, has_network=True)
