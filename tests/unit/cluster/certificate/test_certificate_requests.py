"""Requests for certificates: approved, signed, refused, cleaned away."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from quarterdeck.api import ObjectMeta, Time
from quarterdeck.api.k8s import CertificateSigningRequest, ClusterRoleBinding
from quarterdeck.api.k8s.certificates import CertificateSigningRequestCondition, CertificateSigningRequestSpec
from quarterdeck.api.k8s.rbac import RoleRef, Subject
from quarterdeck.client import Client
from quarterdeck.cluster.certificate.controller import time_left
from quarterdeck.cluster.certificate.request import parse_request, refusal
from quarterdeck.cluster.certificate.signature import Signer
from quarterdeck.cluster.controllers import add_controllers
from quarterdeck.errors import ReconcileError
from quarterdeck.runtime import Manager
from quarterdeck.testing import TestCluster, run_until_idle
from quarterdeck.wire.certificate import certificates_in, is_signed_by
from tests.unit.cluster.clusterkit import exists

CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING = "kubernetes.io/kubelet-serving"
CLIENT_USAGES = ["digital signature", "client auth"]


@pytest.fixture(autouse=True)
async def controllers(cluster: TestCluster, manager: Manager) -> None:
    add_controllers(manager, root_ca=b"", authority=cluster.server.credentials.authority.to_pem())
    await cluster.start(manager)
    await run_until_idle(manager)


def asked(common_name: str, *organizations: str, names: Sequence[str] = ()) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if names:
        wanted = x509.SubjectAlternativeName([x509.DNSName(each) for each in names])
        builder = builder.add_extension(wanted, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


async def make(
    client: Client, request: bytes, signer: str, usages: Sequence[str], seconds: int | None = None
) -> CertificateSigningRequest:
    spec = CertificateSigningRequestSpec(request=request, signer_name=signer, usages=tuple(usages))
    if seconds is not None:
        spec = spec.evolve(expiration_seconds=seconds)
    return await client.create(CertificateSigningRequest(metadata=ObjectMeta(name="r"), spec=spec))


async def decide(client: Client, made: CertificateSigningRequest, type: str = "Approved") -> None:
    condition = CertificateSigningRequestCondition(type=type, status="True", reason="ByHand", message="yes")
    status = made.status.evolve(conditions=(condition,))
    await client.subresource("approval").update(made.evolve(status=status))


async def read(client: Client) -> CertificateSigningRequest:
    return await client.get(CertificateSigningRequest, "r")


async def test_an_approved_request_is_signed_with_the_servers_authority(
    cluster: TestCluster, client: Client, manager: Manager
) -> None:
    made = await make(client, asked("jane", "dev"), CLIENT, CLIENT_USAGES, 3600)
    await run_until_idle(manager)
    assert not (await read(client)).status.certificate
    await decide(client, made)
    await run_until_idle(manager)
    pem = (await read(client)).status.certificate
    assert isinstance(pem, bytes)
    [certificate] = certificates_in(pem)
    assert is_signed_by(certificate, cluster.server.credentials.authority.certificate)
    assert certificate.subject.rfc4514_string() == "CN=jane,O=dev"
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert life.total_seconds() == 3600 + 300


async def test_a_request_that_asks_for_too_much_fails(client: Client, manager: Manager) -> None:
    made = await make(client, asked("jane"), CLIENT, ["client auth", "server auth"])
    await decide(client, made)
    await run_until_idle(manager)
    found = await read(client)
    assert [(each.type, each.reason, each.message) for each in found.status.conditions][1:] == [
        ("Failed", "SignerValidationFailure", "invalid usage for client certificate: server auth")
    ]
    assert not found.status.certificate


async def test_a_denied_request_is_not_signed_and_goes_after_an_hour(
    client: Client, manager: Manager
) -> None:
    made = await make(client, asked("jane"), CLIENT, CLIENT_USAGES)
    await decide(client, made, "Denied")
    await run_until_idle(manager)
    assert not (await read(client)).status.certificate
    await asyncio.sleep(3500)
    assert await exists(client, CertificateSigningRequest, "r")
    await asyncio.sleep(200)
    assert not await exists(client, CertificateSigningRequest, "r")


async def test_how_long_requests_are_kept() -> None:
    made = CertificateSigningRequest(
        metadata=ObjectMeta(name="r", creation_timestamp=Time.of_timestamp(1000)),
        spec=CertificateSigningRequestSpec(signer_name=CLIENT),
    )
    assert time_left(made, 1000) == 24 * 3600
    decided = CertificateSigningRequestCondition(
        type="Approved", status="True", last_update_time=Time.of_timestamp(2000)
    )
    approved = made.evolve(status=made.status.evolve(conditions=(decided,)))
    assert time_left(approved, 2000) == 24 * 3600
    denied = made.evolve(status=made.status.evolve(conditions=(decided.evolve(type="Denied"),)))
    assert time_left(denied, 2000) == 3600
    signed = approved.evolve(status=approved.status.evolve(certificate=b"somebody's"))
    assert time_left(signed, 2000) == 3600


async def test_a_kubelets_own_request_is_approved_and_signed(
    cluster: TestCluster, client: Client, manager: Manager
) -> None:
    group = Subject(api_group="rbac.authorization.k8s.io", kind="Group", name="system:nodes")
    for name in ("system:node", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"):
        role = RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=name)
        metadata = ObjectMeta(generate_name="nodes-")
        await client.create(ClusterRoleBinding(metadata=metadata, role_ref=role, subjects=(group,)))
    kubelet = cluster.as_user("system:node:n", "system:nodes")
    await make(kubelet, asked("system:node:n", "system:nodes"), KUBELET, CLIENT_USAGES)
    await run_until_idle(manager)
    found = await read(client)
    [condition] = found.status.conditions
    text = "Auto approving self kubelet client certificate after SubjectAccessReview."
    assert (condition.type, condition.reason, condition.message) == ("Approved", "AutoApproved", text)
    assert found.status.certificate


async def test_what_signers_refuse() -> None:
    node = parse_request(asked("system:node:n", "system:nodes"))
    named = parse_request(asked("system:node:n", "system:nodes", names=["n"]))
    stranger = parse_request(asked("jane", "system:nodes"))
    assert refusal(KUBELET, node, CLIENT_USAGES) == ""
    assert refusal(KUBELET, named, CLIENT_USAGES) == "DNS subjectAltNames are not allowed"
    assert refusal(KUBELET, stranger, CLIENT_USAGES) == (
        "subject common name does not begin with system:node:"
    )
    assert refusal(KUBELET, node, ["client auth"]) == (
        "usages did not match [client auth digital signature key encipherment]"
    )
    assert refusal(SERVING, node, ["digital signature", "server auth"]) == (
        "DNS or IP subjectAltName is required"
    )
    assert refusal(SERVING, named, ["digital signature", "server auth"]) == ""
    assert refusal(CLIENT, node, ["digital signature"]) == (
        "missing required usage for client certificate: client auth"
    )
    with pytest.raises(ReconcileError, match="PEM block type must be CERTIFICATE REQUEST"):
        parse_request(b"no")


async def test_an_unknown_usage_is_not_signed(cluster: TestCluster) -> None:
    signer = Signer(cluster.server.credentials.authority.to_pem())
    with pytest.raises(ReconcileError, match="unrecognized usage"):
        signer.sign(parse_request(asked("jane")), ["magic"], 1_800_000_000)
