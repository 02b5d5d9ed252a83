"""ServiceAccount: who a pod runs as, and the token it carries."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from .pluginkit import PODS, Api, pod, run

Json = dict[str, Any]
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


def test_a_pod_gets_the_default_account_and_its_token() -> None:
    async def scenario(api: Api) -> None:
        await api.account(imagePullSecrets=[{"name": "pull"}])
        init = {"name": "first", "image": "i:1"}
        spec = (await api.create(PODS, pod(initContainers=[init])))["spec"]
        assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
        assert spec["imagePullSecrets"] == [{"name": "pull"}]
        (volume,) = spec["volumes"]
        assert volume["name"].startswith("kube-api-access-")
        assert len(volume["name"]) == len("kube-api-access-") + 5
        mount = {"name": volume["name"], "readOnly": True, "mountPath": MOUNT_PATH}
        assert spec["containers"][0]["volumeMounts"] == [mount]
        assert spec["initContainers"][0]["volumeMounts"] == [mount]
        assert volume["projected"] == {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {
                    "downwardAPI": {
                        "items": [
                            {
                                "path": "namespace",
                                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
                            }
                        ]
                    }
                },
            ],
            "defaultMode": 420,
        }

    run(scenario)


@pytest.mark.parametrize(
    ("of_account", "of_pod", "mounts"),
    [(None, None, True), (False, None, False), (False, True, True), (True, False, False)],
)
def test_the_pod_decides_before_the_account(
    of_account: bool | None, of_pod: bool | None, mounts: bool
) -> None:
    async def scenario(api: Api) -> None:
        await api.account(automountServiceAccountToken=of_account)
        wanted: Json = {} if of_pod is None else {"automountServiceAccountToken": of_pod}
        spec = (await api.create(PODS, pod(**wanted)))["spec"]
        assert ("volumes" in spec) is mounts

    run(scenario)


def test_a_mount_at_the_path_is_left_alone() -> None:
    async def scenario(api: Api) -> None:
        await api.account()
        own = {"name": "mine", "mountPath": MOUNT_PATH}
        spec = (
            await api.create(
                PODS, pod(container={"volumeMounts": [own]}, volumes=[{"name": "mine", "emptyDir": {}}])
            )
        )["spec"]
        assert [each["name"] for each in spec["volumes"]] == ["mine"]

    run(scenario)


def test_an_account_that_is_missing_refuses_the_pod() -> None:
    async def scenario(api: Api) -> None:
        answer = await api.call("POST", PODS, pod(serviceAccountName="nobody"))
        assert answer.why == (
            'error looking up service account default/nobody: serviceaccount "nobody" not found'
        )

    run(scenario)


def test_a_pod_waits_for_the_account_of_a_new_namespace() -> None:
    async def scenario(api: Api) -> None:
        asked = asyncio.ensure_future(api.call("POST", PODS, pod()))
        await asyncio.sleep(0.05)
        await api.account()
        assert (await asked).code == 201

    run(scenario)


def test_a_mirror_pod_names_no_account() -> None:
    async def scenario(api: Api) -> None:
        mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}}
        spec = (await api.create(PODS, pod(metadata=mirror, nodeName="n")))["spec"]
        assert "serviceAccountName" not in spec
        answer = await api.call(
            "POST", PODS, pod("q", metadata=mirror, nodeName="n", serviceAccountName="default")
        )
        assert answer.why == "a mirror pod may not reference service accounts"
        secret = {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}
        answer = await api.call("POST", PODS, pod("q", metadata=mirror, nodeName="n", container=secret))
        assert answer.why == "a mirror pod may not reference secrets"

    run(scenario)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"volumes": [{"name": "v", "secret": {"secretName": "other"}}]},
            (
                'volume with secret.secretName="other" is not allowed because service account default '
                "does not reference that secret"
            ),
        ),
        (
            {"container": {"envFrom": [{"secretRef": {"name": "other"}}]}},
            (
                'container c with envFrom referencing secret.secretName="other" is not allowed because '
                "service account default does not reference that secret"
            ),
        ),
        (
            {
                "container": {
                    "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "other", "key": "k"}}}]
                }
            },
            (
                'container c with envVar A referencing secret.secretName="other" is not allowed because '
                "service account default does not reference that secret"
            ),
        ),
        (
            {"imagePullSecrets": [{"name": "other"}]},
            (
                'imagePullSecrets[0].name="other" is not allowed because service account default '
                "does not reference that imagePullSecret"
            ),
        ),
        ({"volumes": [{"name": "v", "secret": {"secretName": "mine"}}]}, ""),
    ],
)
def test_only_the_accounts_secrets_are_mounted_where_that_is_enforced(fields: Json, why: str) -> None:
    async def scenario(api: Api) -> None:
        marked = {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}
        await api.account(metadata=marked, secrets=[{"name": "mine"}])
        answer = await api.call("POST", PODS, pod(**fields))
        if why:
            assert answer.why == why
        else:
            assert answer.code == 201

    run(scenario)
