"""The operator with the rights it derives and no more; its trigger and its admission hook; `ipam tree`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from kube.server import cache_dir
from parity import server as servers
from quarterdeck.api import DynamicObject, ObjectMeta
from quarterdeck.api.k8s.rbac import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from quarterdeck.api.manifest import load_documents
from quarterdeck.client import MergePatch
from quarterdeck.errors import Forbidden
from quarterdeck.operators.ipam.assembly import IpamOperator
from quarterdeck.operators.ipam.types import Subnet, SubnetClaim, SubnetPool, SubnetPoolClaim, definitions
from quarterdeck.runtime.certificate import EphemeralCertificates
from quarterdeck.runtime.health import AccessReviewer, MetricsServer
from quarterdeck.runtime.operator import OperatorEnvironment
from quarterdeck.runtime.operator.install import create_namespace
from quarterdeck.runtime.rbac import compare, roles
from quarterdeck.runtime.reconcile.recording import Permission
from quarterdeck.testing import TestCluster
from quarterdeck.wire.http import Request, Response
from tests.harness.wire import load_kubeconfig

from .ipamkit import (
    SPACE,
    Operator,
    check_invariants,
    claim,
    ipam_cluster,
    outcome,
    pool,
    pool_claim,
    settled,
    subnet,
)

COMMAND = [sys.executable, "-m", "quarterdeck.cli"]


@pytest.mark.virtual_time
@pytest.mark.parametrize("strict", [False, True])
async def test_the_derived_role_is_enough_and_all_of_it_is_used(strict: bool) -> None:
    async with ipam_cluster() as cluster:
        client = cluster.client
        link = cluster.link(user="ipam-operator")
        manager = cluster.manager(link=link)
        settings = {"strictAllocation": strict}
        IpamOperator().setup(manager, OperatorEnvironment(name="ipam", settings=settings))
        (role,) = roles("ipam", manager.rules())
        assert isinstance(role, ClusterRole)
        await client.create(role)
        binding = ClusterRoleBinding(
            metadata=ObjectMeta(name="ipam"),
            role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="ipam"),
            subjects=[Subject(api_group="rbac.authorization.k8s.io", kind="User", name="ipam-operator")],
        )
        await client.create(binding)
        async with cluster.serving(manager):
            await everything(cluster, lambda: settled(manager))
        assert [each for each in link.log if each.status == 403] == []
        used = {
            Permission(
                each.target.resource.partition(".")[2],
                each.target.resource.partition(".")[0]
                + (f"/{each.target.subresource}" if each.target.subresource else ""),
                each.target.verb,
            )
            for each in link.log
            if each.is_write
        }
        judged = compare(manager.rules(), used)
        assert judged.missing == ()
        assert judged.unused == ()


async def everything(cluster: TestCluster, settle: Callable[[], Awaitable[None]]) -> None:
    """Make the operator do everything it ever does."""
    client = cluster.client
    await client.create(pool())
    for name in ("a", "b", "twin"):
        await client.create(claim(name, cluster="a" if name == "twin" else name))
        await settle()
    await client.create(pool_claim("pc"))
    await client.create(pool_claim("big", 16))
    await settle()
    await client.patch(
        await client.get(SubnetPoolClaim, "big", SPACE), MergePatch({"spec": {"desiredBlockSize": 18}})
    )
    await settle()
    await check_invariants(client)
    for name in ("pc", "big"):
        await client.delete(SubnetPoolClaim, name, SPACE)
    await client.delete(SubnetClaim, "a", SPACE)
    await settle()
    # Two allocators made two Subnets for one claim: the other one is deleted.
    kept = await client.get(SubnetClaim, "b", SPACE)
    extra = (await client.get(Subnet, "p-10-0-1-0-24", SPACE)).to_dict()
    extra["metadata"] = {
        "name": "p-10-0-9-0-24",
        "namespace": SPACE,
        "ownerReferences": extra["metadata"]["ownerReferences"],
    }
    extra["spec"]["cidr"] = "10.0.9.0/24"
    await client.create(Subnet.from_dict(extra))
    await client.patch(kept, MergePatch({"spec": {"blockSize": 25}}))
    await settle()
    assert [each.spec.cidr for each in await client.list(Subnet, namespace=SPACE) if each.spec] == [
        "10.0.0.0/24",
        "10.0.1.0/24",
    ]


@pytest.fixture(scope="module")
def real() -> Iterator[Path]:
    if not (cache_dir() / "kube-apiserver").exists():
        pytest.skip("there is no kube-apiserver (make kube)")
    with servers.real() as kubeconfig:
        yield kubeconfig


@contextlib.contextmanager
def process(kubeconfig: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`quarterdeck run --operators ipam`."""
    command = [*COMMAND, "run", "--operators", "ipam", "--kubeconfig", str(kubeconfig)]
    command += ["--webhook-url", "https://127.0.0.1:0", "--webhook-port", "0"]
    command += ["--metrics-address", "0", "--health-address", "0"]
    with log.open("wb") as output:
        running = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield running
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(30)


def eventually(holds: Callable[[], bool], within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.kube
def test_run_on_the_real_server_with_the_role_that_manifests_prints(real: Path, tmp_path: Path) -> None:
    kubectl = [str(cache_dir() / "kubectl"), "--kubeconfig", str(real)]

    def admin(*arguments: str, given: str = "") -> str:
        done = subprocess.run(
            [*kubectl, *arguments], input=given, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    printed = subprocess.run(
        [*COMMAND, "manifests", "--operators", "ipam"], capture_output=True, text=True, check=True
    ).stdout
    wanted = [each for each in load_documents(printed) if each["kind"] not in ("Deployment", "Service")]
    for manifest in wanted:
        admin("apply", "--server-side", "-f", "-", given=json.dumps(manifest))
    admin("wait", "--for", "condition=Established", "crd", "--all", "--timeout", "30s")
    token = admin("-n", "quarterdeck-system", "create", "token", "quarterdeck").strip()
    config = yaml.safe_load(real.read_text())
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    limited = tmp_path / "kubeconfig"
    limited.write_text(yaml.safe_dump(config))
    log = tmp_path / "log"
    with process(limited, log):
        admin("create", "-f", "-", given=json.dumps(pool("world").to_dict()))
        for name in ("a", "b"):
            admin("create", "-f", "-", given=json.dumps(claim(name, of="world").to_dict()))
        admin("create", "-f", "-", given=json.dumps(pool_claim("pc", of="world").to_dict()))

        def bound() -> bool:
            found = json.loads(admin("get", "subnetclaims,subnetpoolclaims", "-n", SPACE, "-o", "json"))
            return [(each.get("status") or {}).get("phase") for each in found["items"]] == ["Bound"] * 4

        eventually(bound)

        def exact() -> bool:
            found = json.loads(admin("get", "subnetpool", "world", "-n", SPACE, "-o", "json"))
            return bool((found.get("status") or {}).get("allocatedCount") == 3)

        eventually(exact)
        eventually(lambda: "SubnetAllocated" in admin("get", "events", "-n", SPACE))
        admin("delete", "subnetpoolclaim", "pc", "-n", SPACE, "--timeout", "30s")
    text = log.read_text()
    assert "forbidden" not in text.lower(), text[-3000:]


def ask(operator: Operator, method: str, path: str) -> tuple[int, Any]:
    handler = operator.webhooks.endpoints["/requeue/subnetpools/"]
    answer = handler(Request(method, path))
    assert isinstance(answer, Response)
    return answer.status, answer.body


@pytest.mark.virtual_time
async def test_the_trigger_answers_as_its_contract_says() -> None:
    async with ipam_cluster() as cluster:
        operator = Operator(cluster)
        path = "/requeue/subnetpools/default/p"
        assert ask(operator, "POST", path)[0] == 503
        async with operator.running():
            await cluster.client.create(pool())
            await operator.settle()
            before = operator.value("subnetpool_parent_reconcile_duration_seconds", "success")
            status, body = ask(operator, "POST", path)
            assert (status, json.loads(body)) == (202, {"queued": True, "namespace": "default", "name": "p"})
            assert ask(operator, "POST", "/requeue/subnetpools/default/unknown")[0] == 202
            for bad in (
                "/requeue/subnetpools/default/",
                "/requeue/subnetpools//p",
                "/requeue/subnetpools/a/b/c",
            ):
                assert ask(operator, "POST", bad)[0] == 404
            for method in ("GET", "PUT", "DELETE", "PATCH"):
                assert ask(operator, method, path)[0] == 405
            await operator.settle()
            assert operator.value("subnetpool_parent_requeue_total", "external") == 2
            assert operator.value("subnetpool_parent_reconcile_duration_seconds", "success") >= before + 2
            answers = [ask(operator, "POST", f"/requeue/subnetpools/x/{n}")[0] for n in range(1030)]
            assert (answers[0], answers[-1], answers.count(202)) == (202, 429, 1024)
            await operator.settle()


@pytest.mark.virtual_time
async def test_the_trigger_is_for_those_whom_the_server_allows_it() -> None:
    async with ipam_cluster() as cluster:
        operator = Operator(cluster)
        reviewer = AccessReviewer(cluster.client)
        guarded = reviewer.guard(operator.webhooks.endpoints["/requeue/subnetpools/"])

        async def post(token: str) -> int:
            headers = {"authorization": f"Bearer {token}"} if token else {}
            answer = guarded(Request("POST", "/requeue/subnetpools/default/p", headers=headers))
            return (answer if isinstance(answer, Response) else await answer).status

        async with operator.running():
            await operator.settle()
            tokens = await asyncio.gather(*(token_for(cluster, name) for name in ("cron", "nobody")))
            await allow(cluster, "cron")
            assert [await post(token) for token in ("", "nonsense", *tokens)] == [401, 401, 202, 403]


@pytest.mark.real_time
@pytest.mark.skipif(not shutil.which("curl"), reason="curl is not installed")
async def test_the_cron_job_of_the_examples_has_its_pool_looked_at(tmp_path: Path) -> None:
    """Its manifests as they are, its command with another address; the replica does not lead at first."""
    manifest = Path(__file__).parents[2] / "examples" / "ipam" / "recalculate" / "cronjob.yaml"
    documents = {each["kind"]: each for each in load_documents(manifest.read_text())}
    account = documents["ServiceAccount"]["metadata"]
    pod = documents["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["serviceAccountName"] == account["name"]
    async with ipam_cluster() as cluster:
        client = cluster.client
        await create_namespace(client, account["namespace"])
        for each in documents.values():
            await client.create(DynamicObject(each))
        operator = Operator(cluster)
        server = MetricsServer(
            operator.metrics.registry,
            "127.0.0.1:0",
            certificates=EphemeralCertificates(),
            reviewer=AccessReviewer(client),
            extra=operator.webhooks.endpoints,
        )
        variables = {each["name"]: each["value"] for each in container["env"]}
        token = tmp_path / "token"
        token.write_text(await issued_token(cluster, account["name"], account["namespace"]))
        async with server:
            environment = {
                "PATH": os.environ["PATH"],
                "URL": f"https://127.0.0.1:{server.address[1]}{urlsplit(variables['URL']).path}",
                "TOKEN_FILE": str(token),
            }
            process = await asyncio.create_subprocess_exec(
                *container["command"], env=environment, stdout=asyncio.subprocess.PIPE
            )
            await asyncio.sleep(0.5)  # meanwhile the answer is 503
            async with operator.running(), asyncio.timeout(30):
                told, _ = await process.communicate()
                assert process.returncode == 0, told
                assert b'"queued":true,"namespace":"default","name":"world"' in told
                assert operator.value("subnetpool_parent_requeue_total", "external") == 1


async def issued_token(cluster: TestCluster, account: str, namespace: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await cluster.client.raw("POST", path, body=json.dumps(kind).encode())
    token: str = json.loads(answer.body)["status"]["token"]
    return token


async def token_for(cluster: TestCluster, account: str) -> str:
    body = json.dumps({"metadata": {"name": account}}).encode()
    client = cluster.client
    await client.raw("POST", f"/api/v1/namespaces/{SPACE}/serviceaccounts", body=body)
    return await issued_token(cluster, account, SPACE)


async def allow(cluster: TestCluster, account: str) -> None:
    rule = PolicyRule(verbs=["post"], non_resource_urls=["/requeue/subnetpools/*"])
    await cluster.client.create(ClusterRole(metadata=ObjectMeta(name="requeue"), rules=[rule]))
    await cluster.client.create(
        ClusterRoleBinding(
            metadata=ObjectMeta(name="requeue"),
            role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name="requeue"),
            subjects=[Subject(kind="ServiceAccount", name=account, namespace=SPACE)],
        )
    )


@pytest.mark.real_time
async def test_the_hook_refuses_what_people_should_not_write() -> None:
    async with ipam_cluster() as cluster:
        operator, client = Operator(cluster, {"immutableSubnets": True}), cluster.client
        await cluster.serve_webhooks(*operator.webhooks.admission)
        async with operator.running():
            await client.create(pool(cidr="10.0.7.9/16"))
            await client.create(pool("kid", "10.0.0.0/20", parent="p"))
            await client.create(subnet("a", "10.0.1.0/24"))
            await client.create(subnet("elsewhere", "10.0.1.0/24", of="unknown"))
            await operator.settle()

            async def refused(action: Any, text: str) -> None:
                with pytest.raises(Forbidden) as refusal:
                    await action
                assert text in str(refusal.value)

            overlap = "subnet 10.0.1.0/25 overlaps with existing allocation 10.0.1.0/24"
            await refused(client.create(subnet("b", "10.0.1.5/25")), overlap)
            await refused(
                client.create(subnet("b", "10.1.0.0/24")), "subnet 10.1.0.0/24 is outside pool 10.0.7.9/16"
            )
            await refused(
                client.create(subnet("b", "2001:db8::/64")),
                "subnet 2001:db8::/64 is outside pool 10.0.7.9/16",
            )
            await refused(client.delete(SubnetPool, "p", SPACE), "pool p has child pools: kid")
            present = await client.get(SubnetPool, "p", SPACE)
            await refused(
                client.patch(present, MergePatch({"spec": {"cidr": "10.0.0.0/25"}})),
                "pool p has allocations outside 10.0.0.0/25",
            )
            await refused(
                client.patch(
                    await client.get(Subnet, "a", SPACE), MergePatch({"spec": {"cidr": "10.0.2.0/24"}})
                ),
                "Subnet Spec fields are immutable",
            )
            await client.patch(present, MergePatch({"spec": {"cidr": "10.0.0.0/15"}}))
            await client.patch(
                await client.get(Subnet, "a", SPACE), MergePatch({"metadata": {"labels": {"x": "y"}}})
            )
            await client.create(claim("c", "10.0.32.0/24"))
            await operator.settle()
            assert (await outcome(client, "c"))[0] == "Bound"


def test_tree_draws_the_pools_of_a_cluster(embedded_server: Path) -> None:
    connection = load_kubeconfig(embedded_server).connect()
    headers = {"Content-Type": "application/json"}

    def post(path: str, document: Any) -> int:
        return connection.request("POST", path, body=json.dumps(document).encode(), headers=headers).status

    for definition in definitions():
        assert post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition) in (201, 409)
    root = "/apis/plexaubnet.io/v1alpha1"
    eventually(lambda: connection.request("GET", f"{root}/subnets").status == 200)
    namespace = "tree-test"
    post("/api/v1/namespaces", {"metadata": {"name": namespace}})
    objects = [
        pool("world", "10.0.0.0/24"),
        pool("kid", "10.0.0.128/26", parent="world"),
        subnet("a", "10.0.0.0/26", of="world"),
        subnet("b", "10.0.0.64/30", of="world"),
        subnet("c", "10.0.0.128/26", of="kid"),
    ]
    for each in objects:
        document = {**each.to_dict(), "metadata": {**each.to_dict()["metadata"], "namespace": namespace}}
        assert post(f"{root}/namespaces/{namespace}/{type(each).type_info.plural}", document) == 201
    connection.close()
    command = [
        *COMMAND,
        "ipam",
        "tree",
        "--kubeconfig",
        str(embedded_server),
        "-n",
        namespace,
        "--width",
        "16",
    ]
    drawn = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert drawn.splitlines() == [
        "tree-test:",
        "world  10.0.0.0/24  Linear  2 subnets  26.6% used  largest free 10.0.0.128/25",
        "│  ████░···○○○○····  16 × /28",
        "└─ kid  10.0.0.128/26  Linear  1 subnet  100.0% used  full",
        "      ████████████████  16 × /30",
    ]


def test_tree_says_what_keeps_it_from_reading(tmp_path: Path) -> None:
    command = [*COMMAND, "ipam", "tree", "--kubeconfig", str(tmp_path / "missing")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("quarterdeck: ")
    assert "Traceback" not in done.stderr
