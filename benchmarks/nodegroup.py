"""NodeGroup webhooks: CPU of converting 1,000 objects in one review, and validations per core-second.

    python -m benchmarks.nodegroup [--objects N] [--rounds N]

Ours is measured in process, from the bytes of a review to the bytes of the answer, as CPU time of this
process; cluster state is answered from memory, as the operator answers it from its cache. In the same run
the Go peer (controller-runtime, built by tools/kube/peers/build.sh) converts the same review: CPU time of its
process, TLS included. It knows a part of the fields and keeps nothing of what it drops. The process per call,
which a shell hook costs, is the third measure.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from quarterdeck.api import PartialObjectMetadata
from quarterdeck.api.k8s import Secret
from quarterdeck.cases.hook import _certificates
from quarterdeck.errors import NotFound
from quarterdeck.operators.nodegroup import names
from quarterdeck.operators.nodegroup.webhooks import ClusterReader, ConversionWebhook, policy_webhook
from quarterdeck.runtime.webhook.endpoint import AdmissionEndpoint
from quarterdeck.runtime.webhook.http import Request, Response

Json = dict[str, Any]


def group(index: int) -> Json:
    """A group with everything the old versions cannot hold, as the API server sends it."""
    manager = {"f:spec": {".": {}, "f:nodeType": {}, "f:kubelet": {".": {}, "f:maxPods": {}}}}
    return {
        "apiVersion": names.V1,
        "kind": names.KIND,
        "metadata": {
            "name": f"group-{index}",
            "uid": f"00000000-0000-4000-8000-{index:012d}",
            "resourceVersion": str(index + 1000),
            "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"team": "ml"},
            "managedFields": [
                {
                    "manager": "kubectl",
                    "operation": "Update",
                    "apiVersion": names.V1,
                    "time": "2026-01-01T00:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": manager,
                }
            ],
        },
        "spec": {
            "nodeType": "CloudEphemeral",
            "cri": {"type": "ContainerdV2", "containerdV2": {"maxConcurrentDownloads": 5}},
            "cloudInstances": {
                "classReference": {"kind": "AWSInstanceClass", "name": "gpu"},
                "minPerZone": 0,
                "maxPerZone": 4,
                "priority": 30,
                "zones": ["a", "b"],
                "standby": "10%",
                "standbyHolder": {"overprovisioningRate": 40, "notHeldResources": {"cpu": "500m"}},
            },
            "nodeTemplate": {
                "labels": {"role": "gpu"},
                "taints": [{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}],
            },
            "disruptions": {
                "approvalMode": "RollingUpdate",
                "rollingUpdate": {"windows": [{"from": "8:00", "to": "18:30", "days": ["Mon", "Sun"]}]},
            },
            "kubelet": {
                "maxPods": 60,
                "containerLogMaxSize": "50Mi",
                "containerLogMaxFiles": 4,
                "resourceReservation": {"mode": "Static", "static": {"cpu": "500m"}},
                "topologyManager": {"enabled": True, "scope": "Pod", "policy": "SingleNumaNode"},
            },
            "update": {"maxConcurrent": "20%"},
            "gpu": {"sharing": "TimeSlicing", "timeSlicing": {"partitionCount": 4}},
            "nodeDrainTimeoutSecond": 300,
        },
        "status": {
            "ready": 2,
            "nodes": 2,
            "desired": 2,
            "min": 0,
            "max": 8,
            "error": "",
            "conditionSummary": {"statusMessage": "", "ready": "True"},
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
                for kind in ("Ready", "Updating", "Error", "Scaling")
            ],
        },
    }


class Memory:
    """Cluster state in memory, as a cache has it."""

    def __init__(self) -> None:
        text = b"clusterType: Cloud\ncloud: {prefix: prod}\ndefaultCRI: Containerd\n"
        zones = b'{"zones": ["a", "b"]}'
        self._secrets = {
            names.CLUSTER_CONFIGURATION_SECRET: Secret(data={names.CLUSTER_CONFIGURATION_KEY: text}),
            names.PROVIDER_SECRET: Secret(data={names.DISCOVERY_DATA_KEY: zones}),
        }

    async def get(self, kind: Any, name: str, namespace: str = "") -> Any:
        if kind is Secret and name in self._secrets:
            return self._secrets[name]
        raise NotFound.in_cache(kind.__name__, name)

    async def list(self, kind: Any, *, labels: Any) -> Sequence[PartialObjectMetadata]:
        return ()


def conversion_body(objects: Sequence[Any], target: str) -> bytes:
    request = {"uid": "u", "desiredAPIVersion": target, "objects": list(objects)}
    review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    return json.dumps(review).encode()


def admission_body(document: Json) -> bytes:
    kind = {"group": names.GROUP, "version": "v1", "kind": names.KIND}
    resource = {"group": names.GROUP, "version": "v1", "resource": "nodegroups"}
    request = {
        "uid": "u",
        "kind": kind,
        "resource": resource,
        "name": document["metadata"]["name"],
        "operation": "UPDATE",
        "userInfo": {"username": "admin", "groups": ["system:masters"]},
        "object": document,
        "oldObject": document,
        "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    ).encode()


async def best_cpu(call: Callable[[], Awaitable[object]], rounds: int) -> float:
    """The smallest CPU time of a call, in milliseconds."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        await call()
        times.append(time.process_time() - start)
    return min(times) * 1000


async def measure(objects: int, rounds: int) -> dict[str, float]:
    cluster = ClusterReader(Memory())
    webhook = ConversionWebhook(cluster)
    down = conversion_body([group(index) for index in range(objects)], names.V1ALPHA1)
    answer = json.loads(await webhook.answer(down))
    converted = answer["response"]["convertedObjects"]
    assert len(converted) == objects, answer["response"]["result"]
    assert names.CONVERSION_DATA in converted[0]["metadata"]["annotations"]
    up = conversion_body(converted, names.V1)
    restored = json.loads(await webhook.answer(up))["response"]["convertedObjects"]
    assert restored == [group(index) for index in range(objects)], "the round trip is not the identity"

    endpoint = AdmissionEndpoint(policy_webhook(cluster))
    body = admission_body(group(0))
    request = Request("POST", names.POLICY_PATH, headers=((b"content-type", b"application/json"),), body=body)
    count = 2000

    async def validate() -> None:
        for _ in range(count):
            response = endpoint.handle(request)
            if not isinstance(response, Response):
                response = await response
            assert b'"allowed":true' in response.body, response.body

    return {
        "down": await best_cpu(lambda: webhook.answer(down), rounds),
        "up": await best_cpu(lambda: webhook.answer(up), rounds),
        "validations": count / (await best_cpu(validate, max(3, rounds // 4)) / 1000),
    }


def process_per_call() -> float:
    """CPU of a shell that does nothing but read the review, in milliseconds: the floor of a shell hook."""
    body = admission_body(group(0))
    before = os.times()
    count = 20
    for _ in range(count):
        command = ["bash", "-c", 'read -r -d "" body; printf "%s" "${#body}"']
        subprocess.run(command, input=body, check=False, stdout=subprocess.DEVNULL)
    after = os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return spent / count * 1000


class GoPeer:
    """The controller-runtime webhook in a process of its own."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._directory = tempfile.TemporaryDirectory(prefix="quarterdeck-bench-")

    def __enter__(self) -> GoPeer:
        authority, chain, key = _certificates()
        folder = Path(self._directory.name)
        (folder / "tls.crt").write_bytes(chain)
        (folder / "tls.key").write_bytes(key)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [str(self._program), "--cert-dir", str(folder), "--port", str(port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == b"ready", "the Go peer did not start"
        context = ssl.create_default_context(cadata=authority.decode())
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)
        return self

    def __exit__(self, *exc: object) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.wait()
        self._directory.cleanup()

    def post(self, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", names.CONVERT_PATH, body=body, headers=headers)
        return self._connection.getresponse().read()

    def cpu(self) -> float:
        """Milliseconds of CPU so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")

    def conversion(self, body: bytes, rounds: int) -> float:
        """CPU of one review, in milliseconds; the clock of the kernel is coarse, so many are averaged."""
        answer = json.loads(self.post(body))["response"]
        assert answer["result"]["status"] == "Success", answer["result"]
        before = self.cpu()
        for _ in range(rounds):
            self.post(body)
        return (self.cpu() - before) / rounds


def go_milliseconds(objects: int, rounds: int) -> float | None:
    cache = Path(os.environ.get("QUARTERDECK_CACHE") or Path.home() / ".cache" / "quarterdeck")
    program = next(iter(sorted(cache.glob("kube/*/peers/webhook"))), None)
    if program is None:
        return None
    with GoPeer(program) as peer:
        return peer.conversion(
            conversion_body([group(index) for index in range(objects)], names.V1ALPHA1), rounds
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nodegroup", description=__doc__)
    parser.add_argument("--objects", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args(arguments)
    found = asyncio.run(measure(options.objects, options.rounds))
    peer = go_milliseconds(options.objects, options.rounds)
    shell = process_per_call()
    print(f"conversion v1 -> v1alpha1, {options.objects} objects, lossless: {found['down']:.1f} ms CPU")
    print(f"conversion v1alpha1 -> v1, restoring:           {found['up']:.1f} ms CPU")
    if peer is None:
        print("the Go peer is not built: run tools/kube/peers/build.sh")
    else:
        print(f"controller-runtime, v1 -> v1alpha1, lossy:      {peer:.1f} ms CPU", end="")
        print(f" (ours {found['down'] / peer:.2f}x)")
    print(f"policy validations: {found['validations']:.0f} per core-second")
    print(f"a process per call (bash, reading the review):  {shell:.2f} ms CPU", end="")
    print(f" ({shell * found['validations'] / 1000:.0f}x a validation here)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
