"""Trainer: the cost of rendering a TrainJob, and TrainJobs per second on a whole cluster.

    python -m benchmarks trainer [--only render|jobs|operator] [--jobs N] [--peer "COMMAND"]

`render`: CPU from a TrainJob and its runtime to the objects, at growing numbers of replicated jobs.
`jobs`: TrainJobs created one after the other on the cluster of `quarterdeck up`, admission and all, until
each has its JobSet; beside them, in the same run, as many JobSets that a client writes itself. The ratio is
what the operator adds.
`operator`: the CPU that the operator alone takes for a TrainJob on the real kube-apiserver, webhooks
included. `--peer` is a command that runs the manager of Kubeflow Trainer, which you have built yourself, on
the cluster of $KUBECONFIG: it does the same work in the same run, without webhooks.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop

from quarterdeck.api import DynamicObject, crd
from quarterdeck.apiserver import ServerOptions
from quarterdeck.cli.cluster import cluster_in_one_process
from quarterdeck.client import Client, Config, InProcessTransport
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.jobset.types import definition as jobset_definition
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.assembly import TrainerOperator
from quarterdeck.operators.trainer.logic.plugin import Present
from quarterdeck.operators.trainer.logic.plugins import default_framework
from quarterdeck.operators.trainer.types import (
    CoschedulingPodGroup,
    TrainingRuntime,
    TrainJob,
    VolcanoPodGroup,
    definitions,
)
from quarterdeck.runtime.operator.install import install_definitions

from . import wire

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from kube.server import RealServer, is_built

SIZES = (1, 4, 16, 64)
ROUNDS = 7
PER_ROUND = 200
Json = dict[str, Any]


def _replicated(name: str, ancestor: str = "") -> Json:
    container = {
        "name": "node",
        "image": "example/train:1",
        "env": [{"name": f"V{index}", "value": "x"} for index in range(5)],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    template: Json = {"spec": {"template": {"spec": {"containers": [container]}}}}
    if ancestor:
        template["metadata"] = {"labels": {names.ANCESTOR_LABEL: ancestor}}
    return {"name": name, "template": template}


def runtime(jobs: int) -> Json:
    """A Torch runtime of some jobs, the last of which trains."""
    replicated = [_replicated(f"side-{index}") for index in range(jobs - 1)]
    return {
        "apiVersion": names.API_VERSION,
        "kind": "TrainingRuntime",
        "metadata": {"name": "bench", "namespace": "default"},
        "spec": {
            "mlPolicy": {"numNodes": 4, "torch": {"numProcPerNode": "auto"}},
            "podGroupPolicy": {"coscheduling": {"scheduleTimeoutSeconds": 60}},
            "template": {"spec": {"replicatedJobs": [*replicated, _replicated("node", names.TRAINER)]}},
        },
    }


def train_job(name: str = "bench") -> Json:
    return {
        "apiVersion": names.API_VERSION,
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": "default", "uid": "uid"},
        "spec": {
            "runtimeRef": {"apiGroup": names.GROUP, "kind": "TrainingRuntime", "name": "bench"},
            "suspend": True,
            "trainer": {"numNodes": 8, "env": [{"name": "MINE", "value": "1"}]},
        },
    }


def bench_render() -> bool:
    """Median CPU of a rendering, and how it grows."""
    print("rendering a TrainJob (median CPU)")
    framework, job = default_framework(), TrainJob.from_dict(train_job())
    times: dict[int, float] = {}
    for size in SIZES:
        made_of = TrainingRuntime.from_dict(runtime(size))
        looks = []
        for _ in range(ROUNDS):
            count = max(1, PER_ROUND // size)
            started = time.process_time()
            for _ in range(count):
                framework.render(job, made_of, Present())
            looks.append((time.process_time() - started) / count * 1e6)
        times[size] = statistics.median(looks)
        print(f"  {size:>3} replicated jobs  {times[size]:9.1f} µs  {times[size] / size:7.1f} µs per job")
    few, many = SIZES[1], SIZES[-1]
    growth = (times[many] / many) / (times[few] / few)
    verdict = "ok" if growth <= 1.2 else "MORE THAN LINEAR"
    print(f"  one of {many} costs {growth:.2f}× what one of {few} does (≤ 1.2)   {verdict}")
    return growth <= 1.2


async def bench_jobs(count: int) -> bool:
    """TrainJobs until their JobSets are there, beside JobSets alone; both are suspended and run nothing."""
    print(f"\n{count} TrainJobs on the cluster of `quarterdeck up`, in one process")
    async with cluster_in_one_process(ServerOptions(), [TrainerOperator()], {}, asyncio.Event()) as server:
        client = Client.over(InProcessTransport(server.local()))
        made_of = runtime(1)
        del made_of["spec"]["podGroupPolicy"]
        await client.create(TrainingRuntime.from_dict(made_of))
        template = made_of["spec"]["template"]["spec"]
        alone = await _rate(client, count, lambda name: _jobset(name, template), "alone")
        whole = await _rate(client, count, _stored, "job")
        await client.aclose()
    print(f"  JobSets that a client writes   {alone:7.1f} /s")
    print(f"  TrainJobs with their JobSets   {whole:7.1f} /s")
    print(f"  a TrainJob costs {alone / whole:.1f}× a JobSet")
    return True


def _stored(name: str) -> Json:
    document = train_job(name)
    del document["metadata"]["uid"]
    return document


def _jobset(name: str, template: Json) -> Json:
    gvk = JobSet.type_info.gvk
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": gvk.api_version,
        "kind": gvk.kind,
        "metadata": metadata,
        "spec": {**template, "suspend": True},
    }


def bench_operator(count: int, peer: str) -> bool:
    """CPU of the operator's process from the first TrainJob to the last JobSet."""
    if not is_built():
        print("\nthe real kube-apiserver is not built (make kube): nothing to measure the operator alone on")
        return True
    print(f"\n{count} TrainJobs on kube-apiserver + etcd: CPU of the operator alone")
    ours = _alone(count, "")
    print(f"  quarterdeck run --operators trainer   {ours * 1000:7.2f} ms of CPU for a TrainJob")
    if not peer:
        return True
    theirs = _alone(count, peer)
    print(f"  the peer                              {theirs * 1000:7.2f} ms of CPU for a TrainJob")
    print(f"  ours is {ours / theirs:.2f}× the peer's (≤ 1.0)   {'ok' if ours <= theirs else 'MORE'}")
    return ours <= theirs


def _alone(count: int, peer: str) -> float:
    """Seconds of CPU for each TrainJob."""
    with RealServer(fsync=False) as server, tempfile.TemporaryFile() as log:
        asyncio.run(_prepare(server.kubeconfig))
        health = _free_port()
        command = shlex.split(peer) or [
            sys.executable, "-m", "quarterdeck.cli", "run", "--operators", "trainer", "--install",
            "--webhook-host", "127.0.0.1", "--webhook-port", "0", "--webhook-url", "https://127.0.0.1:0",
            "--metrics-address", "0", "--health-address", f"127.0.0.1:{health}", "--no-leader-election",
        ]  # fmt: skip
        environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            asyncio.run(_work(server.kubeconfig, "warm", 5))
            before = wire.cpu_seconds([process.pid])
            asyncio.run(_work(server.kubeconfig, "job", count))
            time.sleep(2.0)  # what is still to be done about them
            return (wire.cpu_seconds([process.pid]) - before) / count
        finally:
            process.terminate()
            process.wait()


async def _prepare(kubeconfig: Path) -> None:
    client = Client.connect(Config.load(str(kubeconfig)))
    try:
        await install_definitions(client, *definitions(), jobset_definition())
        await install_definitions(client, crd(CoschedulingPodGroup), crd(VolcanoPodGroup))
        made_of = runtime(1)
        del made_of["spec"]["podGroupPolicy"]
        await client.create(TrainingRuntime.from_dict(made_of))
    finally:
        await client.aclose()


async def _work(kubeconfig: Path, prefix: str, count: int) -> None:
    client = Client.connect(Config.load(str(kubeconfig)))
    try:
        async with asyncio.timeout(600):
            await _rate(client, count, _stored, prefix)
    finally:
        await client.aclose()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


async def _rate(client: Client, count: int, make: Any, prefix: str) -> float:
    """Objects per second until the JobSets of all of them are there."""
    started = time.perf_counter()
    for index in range(count):
        await client.create(DynamicObject(make(f"{prefix}-{index}")))
    while True:
        found = await client.list(JobSet, namespace="default")
        if sum(each.metadata.name.startswith(f"{prefix}-") for each in found) == count:
            return count / (time.perf_counter() - started)
        await asyncio.sleep(0.02)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks trainer", description=__doc__)
    parser.add_argument("--only", choices=("render", "jobs", "operator"))
    parser.add_argument("--jobs", type=int, default=600)
    parser.add_argument("--peer", default="", metavar="COMMAND")
    options, _ = parser.parse_known_args(arguments)
    good = True
    if options.only in (None, "render"):
        good = bench_render()
    if options.only in (None, "jobs"):
        good = uvloop.run(bench_jobs(options.jobs)) and good
    if options.only in (None, "operator"):
        good = bench_operator(options.jobs, options.peer) and good
    return 0 if good else 1
