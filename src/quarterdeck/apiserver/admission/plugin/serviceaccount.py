"""ServiceAccount: every pod runs as a service account and carries its token.

A pod that names none runs as `default`, which a controller makes in every new namespace: a pod that
arrives a moment earlier waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.admission.attributes import Attributes
from quarterdeck.apiserver.builtin.pod.reference import secret_names
from quarterdeck.apiserver.uid import generate_name

from .base import CREATE, UPDATE, Plugin, annotations_of, keys, spec_of

MIRROR: Final = "kubernetes.io/config.mirror"
_DEFAULT: Final = "default"
_ENFORCE: Final = "kubernetes.io/enforce-mountable-secrets"
_TRUE: Final = frozenset(("1", "t", "T", "true", "True", "TRUE"))
_VOLUME: Final = "kube-api-access"
_MOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS: Final = 3607
_WAITS: Final = 10
_WAIT_SECONDS: Final = 0.15


class ServiceAccount(Plugin):
    """Names the account, mounts its token and adds its pull secrets."""

    name = "ServiceAccount"
    mutates = keys("", ("pods",), (CREATE,))
    validates = mutates | keys("", ("pods/ephemeralcontainers",), (UPDATE,))

    async def prepare(self, attributes: Attributes) -> None:
        wanted = spec_of(attributes.object).get("serviceAccountName") or _DEFAULT
        if wanted != _DEFAULT or MIRROR in annotations_of(attributes.object):
            return
        for _ in range(_WAITS - 1):
            if _account(attributes, wanted) is not None:
                return
            await asyncio.sleep(_WAIT_SECONDS)

    def mutate(self, attributes: Attributes) -> None:
        pod = attributes.object
        if pod is None:
            return
        if MIRROR in annotations_of(pod):
            self.validate(attributes)
            return
        spec = pod.setdefault("spec", {})
        if not spec.get("serviceAccountName"):
            spec["serviceAccountName"] = _DEFAULT
        # upstream's older name of the same field
        spec["serviceAccount"] = spec["serviceAccountName"]
        account = _found_account(attributes, spec["serviceAccountName"])
        if _mounts_token(account, spec):
            _mount_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [
                {"name": each.get("name", "")} for each in account["imagePullSecrets"]
            ]
        self.validate(attributes)

    def validate(self, attributes: Attributes) -> None:
        pod = attributes.object
        if pod is None:
            return
        spec, is_new = spec_of(pod), attributes.operation == CREATE
        if is_new and MIRROR in annotations_of(pod):
            _check_mirror(attributes, spec)
            return
        wanted = spec.get("serviceAccountName")
        if not wanted:
            name = pod["metadata"].get("name", "")
            raise attributes.forbidden(f"no service account specified for pod {attributes.namespace}/{name}")
        account = _found_account(attributes, wanted)
        if annotations_of(account).get(_ENFORCE) in _TRUE:
            problems = _secret_problems(account, spec) if is_new else _ephemeral_problems(account, spec)
            for why in problems:
                raise attributes.forbidden(why)


def _account(attributes: Attributes, name: str) -> Json | None:
    return attributes.context.cluster.get("", "serviceaccounts", attributes.namespace, name)


def _found_account(attributes: Attributes, name: str) -> Json:
    account = _account(attributes, name)
    if account is None:
        which = f"{attributes.namespace}/{name}"
        raise attributes.forbidden(
            f'error looking up service account {which}: serviceaccount "{name}" not found'
        )
    return account


def _mounts_token(account: Json, spec: Json) -> bool:
    for said in (spec.get("automountServiceAccountToken"), account.get("automountServiceAccountToken")):
        if said is not None:
            return bool(said)
    return True


def _mount_token(spec: Json) -> None:
    volumes = spec.get("volumes") or []
    present = [each["name"] for each in volumes if each["name"].startswith(f"{_VOLUME}-")]
    name = present[0] if present else generate_name(f"{_VOLUME}-")
    is_needed = False
    for key in ("initContainers", "containers"):
        for container in spec.get(key) or ():
            mounts = container.get("volumeMounts") or []
            if any(each.get("mountPath") == _MOUNT_PATH for each in mounts):
                continue
            mount = {"name": name, "readOnly": True, "mountPath": _MOUNT_PATH}
            container["volumeMounts"] = [*mounts, mount]
            is_needed = True
    if is_needed and not present:
        spec["volumes"] = [*volumes, {"name": name, "projected": _token_volume()}]


def _token_volume() -> Json:
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
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


def _check_mirror(attributes: Attributes, spec: Json) -> None:
    if spec.get("serviceAccountName"):
        raise attributes.forbidden("a mirror pod may not reference service accounts")
    if next(secret_names(spec), None) is not None:
        raise attributes.forbidden("a mirror pod may not reference secrets")
    for volume in spec.get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                raise attributes.forbidden("a mirror pod may not use ServiceAccountToken volume projections")


def _secret_problems(account: Json, spec: Json) -> Iterator[str]:
    mountable = {each.get("name") for each in account.get("secrets") or ()}
    owner = f"service account {account['metadata']['name']} does not reference that"
    for volume in spec.get("volumes") or ():
        name = (volume.get("secret") or {}).get("secretName", "")
        if volume.get("secret") is not None and name not in mountable:
            yield f'volume with secret.secretName="{name}" is not allowed because {owner} secret'
    for key, title in (("initContainers", "init container"), ("containers", "container")):
        yield from _environment_problems(spec.get(key) or (), title, mountable, owner)
    pullable = {each.get("name") for each in account.get("imagePullSecrets") or ()}
    for index, each in enumerate(spec.get("imagePullSecrets") or ()):
        if each.get("name") not in pullable:
            yield (
                f'imagePullSecrets[{index}].name="{each.get("name", "")}" is not allowed because {owner} '
                "imagePullSecret"
            )


def _ephemeral_problems(account: Json, spec: Json) -> Iterator[str]:
    mountable = {each.get("name") for each in account.get("secrets") or ()}
    owner = f"service account {account['metadata']['name']} does not reference that"
    containers = spec.get("ephemeralContainers") or ()
    yield from _environment_problems(containers, "ephemeral container", mountable, owner)


def _environment_problems(
    containers: Iterable[Json], title: str, mountable: set[Any], owner: str
) -> Iterator[str]:
    for container in containers:
        who = f"{title} {container['name']}"
        for variable in container.get("env") or ():
            reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if reference is not None and reference.get("name") not in mountable:
                yield (
                    f'{who} with envVar {variable["name"]} referencing secret.secretName="'
                    f'{reference.get("name", "")}" is not allowed because {owner} secret'
                )
        for source in container.get("envFrom") or ():
            reference = source.get("secretRef")
            if reference is not None and reference.get("name") not in mountable:
                yield (
                    f'{who} with envFrom referencing secret.secretName="{reference.get("name", "")}" is not '
                    f"allowed because {owner} secret"
                )
