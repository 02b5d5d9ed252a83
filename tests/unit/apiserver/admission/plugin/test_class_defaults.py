"""DefaultStorageClass, DefaultIngressClass, PersistentVolumeClaimResize, certificates."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from quarterdeck.apiserver.auth import UserInfo

from .pluginkit import MERGE, Api, run

Json = dict[str, Any]
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
INGRESS_CLASSES = "/apis/networking.k8s.io/v1/ingressclasses"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def storage_class(name: str, *, default: bool = False, **fields: Any) -> Json:
    marks = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {"metadata": {"name": name, "annotations": marks}, "provisioner": "x", **fields}


def claim(**spec: Any) -> Json:
    return {
        "metadata": {"name": "c"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
    }


@pytest.mark.parametrize(
    ("spec", "expected"),
    [({}, "fast"), ({"storageClassName": ""}, ""), ({"storageClassName": "slow"}, "slow")],
)
def test_a_claim_without_a_class_gets_the_default_one(spec: Json, expected: str) -> None:
    async def scenario(api: Api) -> None:
        await api.create(CLASSES, storage_class("slow"))
        await api.create(CLASSES, storage_class("fast", default=True))
        made = await api.create(CLAIMS, claim(**spec))
        assert made["spec"]["storageClassName"] == expected
        assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]

    run(scenario)


def test_without_a_default_class_a_claim_stays_as_it_is() -> None:
    async def scenario(api: Api) -> None:
        await api.create(CLASSES, storage_class("slow"))
        assert "storageClassName" not in (await api.create(CLAIMS, claim()))["spec"]

    run(scenario)


def test_only_bound_claims_of_a_class_that_allows_it_grow() -> None:
    async def scenario(api: Api) -> None:
        await api.create(CLASSES, storage_class("slow", allowVolumeExpansion=False))
        await api.create(CLAIMS, claim(storageClassName="slow"))
        bigger = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
        answer = await api.call("PATCH", f"{CLAIMS}/c", bigger, media=MERGE)
        assert answer.code == 422  # nothing of an unbound claim may change
        await api.call("PATCH", f"{CLAIMS}/c/status", {"status": {"phase": "Bound"}}, media=MERGE)
        await api.call("PATCH", f"{CLAIMS}/c", {"spec": {"volumeName": "v"}}, media=MERGE)
        answer = await api.call("PATCH", f"{CLAIMS}/c", bigger, media=MERGE)
        assert answer.why == (
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc "
            "must support resize"
        )
        await api.call("PATCH", f"{CLASSES}/slow", {"allowVolumeExpansion": True}, media=MERGE)
        answer = await api.call("PATCH", f"{CLAIMS}/c", bigger, media=MERGE)
        assert answer.code == 200

    run(scenario)


def test_an_ingress_without_a_class_gets_the_default_one() -> None:
    async def scenario(api: Api) -> None:
        marks = {"ingressclass.kubernetes.io/is-default-class": "true"}
        for name, notes in (("a", {}), ("b", marks)):
            await api.create(
                INGRESS_CLASSES,
                {"metadata": {"name": name, "annotations": notes}, "spec": {"controller": "x.io/y"}},
            )
        backend = {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
        made = await api.create(INGRESSES, {"metadata": {"name": "i"}, "spec": backend})
        assert made["spec"]["ingressClassName"] == "b"
        old = {"name": "j", "annotations": {"kubernetes.io/ingress.class": "nginx"}}
        made = await api.create(INGRESSES, {"metadata": old, "spec": backend})
        assert "ingressClassName" not in made["spec"]

    run(scenario)


def signing_request(signer: str, *organizations: str) -> Json:
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    subject = x509.Name([*names, x509.NameAttribute(NameOID.COMMON_NAME, "alice")])
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    pem = request.public_bytes(serialization.Encoding.PEM)
    return {
        "metadata": {"name": "r"},
        "spec": {
            "request": base64.b64encode(pem).decode(),
            "signerName": signer,
            "usages": ["client auth"],
        },
    }


def test_nobody_asks_for_a_certificate_of_the_masters() -> None:
    async def scenario(api: Api) -> None:
        wanted = signing_request("kubernetes.io/kube-apiserver-client", "system:masters")
        answer = await api.call("POST", REQUESTS, wanted)
        assert answer.why == (
            "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
        )
        assert (
            await api.call("POST", REQUESTS, signing_request("example.com/x", "system:masters"))
        ).code == 201

    run(scenario)


def test_approving_and_signing_need_a_word_about_the_signer() -> None:
    bob = UserInfo("bob", groups=("system:authenticated",))

    async def scenario(api: Api) -> None:
        rules: list[Json] = [
            {
                "apiGroups": ["certificates.k8s.io"],
                "resources": [
                    "certificatesigningrequests",
                    "certificatesigningrequests/approval",
                    "certificatesigningrequests/status",
                ],
                "verbs": ["*"],
            }
        ]
        role = {"metadata": {"name": "csr"}, "rules": rules}
        await api.create(f"{RBAC}/clusterroles", role)
        binding = {
            "metadata": {"name": "csr"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "csr"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
        }
        await api.create(f"{RBAC}/clusterrolebindings", binding)
        await api.create(REQUESTS, signing_request("example.com/x"))
        approved = {"status": {"conditions": [{"type": "Approved", "status": "True"}]}}
        failed = {"type": "Failed", "status": "True"}

        async def approve() -> Any:
            return await api.call("PATCH", f"{REQUESTS}/r/approval", approved, media=MERGE, as_user=bob)

        async def sign() -> Any:
            known = (await api.call("GET", f"{REQUESTS}/r")).body["status"].get("conditions") or []
            status = {"status": {"conditions": [*known, failed]}}
            return await api.call("PATCH", f"{REQUESTS}/r/status", status, media=MERGE, as_user=bob)

        why = 'user not permitted to approve requests with signerName "example.com/x"'
        assert (await approve()).why == why
        assert (await sign()).why == 'user not permitted to sign requests with signerName "example.com/x"'
        rules.append(
            {
                "apiGroups": ["certificates.k8s.io"],
                "resources": ["signers"],
                "resourceNames": ["example.com/*"],
                "verbs": ["approve"],
            }
        )
        await api.call("PATCH", f"{RBAC}/clusterroles/csr", {"rules": rules}, media=MERGE)
        assert (await approve()).code == 200
        assert (await sign()).code == 403

    run(scenario)
