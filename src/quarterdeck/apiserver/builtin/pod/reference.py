"""The other objects that a pod's spec names: Secrets, ConfigMaps, claims, its service account."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from quarterdeck.api.jsonobject import Json

_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
#: volume source -> where it names a Secret
_SECRET_FIELDS: Final = (
    ("azureFile", "secretName"),
    ("cephfs", "secretRef"),
    ("cinder", "secretRef"),
    ("flexVolume", "secretRef"),
    ("rbd", "secretRef"),
    ("secret", "secretName"),
    ("scaleIO", "secretRef"),
    ("iscsi", "secretRef"),
    ("storageos", "secretRef"),
    ("csi", "nodePublishSecretRef"),
)


def containers(spec: Json) -> Iterator[Json]:
    """All containers: init, ordinary, ephemeral."""
    for key in _CONTAINERS:
        yield from spec.get(key) or ()


def secret_names(spec: Json) -> Iterator[str]:
    """The Secrets a pod's spec names, some more than once."""
    for each in spec.get("imagePullSecrets") or ():
        yield from _name(each)
    yield from _environment_names(spec, "secretKeyRef", "secretRef")
    for volume in spec.get("volumes") or ():
        for source, field in _SECRET_FIELDS:
            found = (volume.get(source) or {}).get(field)
            if isinstance(found, str) and found:
                yield found
            elif isinstance(found, dict):
                yield from _name(found)
        for projected in (volume.get("projected") or {}).get("sources") or ():
            yield from _name(projected.get("secret"))


def config_map_names(spec: Json) -> Iterator[str]:
    """The ConfigMaps a pod's spec names, some more than once."""
    yield from _environment_names(spec, "configMapKeyRef", "configMapRef")
    for volume in spec.get("volumes") or ():
        yield from _name(volume.get("configMap"))
        for projected in (volume.get("projected") or {}).get("sources") or ():
            yield from _name(projected.get("configMap"))


def volume_claim_names(pod: Json) -> Iterator[str]:
    """The PersistentVolumeClaims of a pod's volumes, ephemeral ones included."""
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if volume.get("persistentVolumeClaim") is not None:
            yield volume["persistentVolumeClaim"].get("claimName", "")
        elif volume.get("ephemeral") is not None:
            yield f"{pod['metadata']['name']}-{volume['name']}"


def resource_claim_names(pod: Json) -> Iterator[str]:
    """The ResourceClaims a pod uses, as far as they are known."""
    status = pod.get("status") or {}
    generated = {
        each.get("name"): each.get("resourceClaimName") for each in status.get("resourceClaimStatuses") or ()
    }
    for claim in (pod.get("spec") or {}).get("resourceClaims") or ():
        name = claim.get("resourceClaimName") or generated.get(claim.get("name"))
        if name:
            yield name
    extended = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    if extended:
        yield extended


def _name(reference: Json | None) -> Iterator[str]:
    if reference is not None and reference.get("name"):
        yield reference["name"]


def _environment_names(spec: Json, key: str, whole: str) -> Iterator[str]:
    for container in containers(spec):
        for variable in container.get("env") or ():
            yield from _name((variable.get("valueFrom") or {}).get(key))
        for source in container.get("envFrom") or ():
            yield from _name(source.get(whole))


_HARMLESS: Final = frozenset(
    (
        "awsElasticBlockStore",
        "azureDisk",
        "cephfs",
        "cinder",
        "downwardAPI",
        "emptyDir",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "gitRepo",
        "hostPath",
        "image",
        "iscsi",
        "nfs",
        "photonPersistentDisk",
        "portworxVolume",
        "quobyte",
        "rbd",
        "scaleIO",
        "storageos",
        "vsphereVolume",
    )
)
_VOLUME_WORDS: Final = {
    "configMap": "configmaps (via configmap volumes)",
    "secret": "secrets (via secret volumes)",
    "csi": "csidrivers (via CSI volumes)",
    "glusterfs": "endpoints (via glusterFS volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
    "azureFile": "secrets (via azureFile volumes)",
}
_PROJECTION_WORDS: Final = {
    "configMap": "configmaps (via projected volumes)",
    "secret": "secrets (via projected volumes)",
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


def referenced_kind(spec: Json) -> str:
    """Which kind of API object a pod names, in upstream's words; "" when it names none."""
    if spec.get("serviceAccountName"):
        return "serviceaccounts"
    if next(secret_names(spec), None) is not None:
        return "secrets"
    if next(config_map_names(spec), None) is not None:
        return "configmaps"
    if spec.get("resourceClaims"):
        return "resourceclaims"
    for volume in spec.get("volumes") or ():
        if any(volume.get(source) is not None for source in _HARMLESS):
            continue
        for source, words in _VOLUME_WORDS.items():
            if volume.get(source) is not None:
                return words
        for projected in (volume.get("projected") or {}).get("sources") or ():
            for source, words in _PROJECTION_WORDS.items():
                if projected.get(source) is not None:
                    return words
    return ""
