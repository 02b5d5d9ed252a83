"""Shared GPUs on a real cluster: the pod that reserves the device, and how its users learn which one it is.

The device plugin gives out whole devices only. For each shared one a reservation pod asks for it; the pods
that share it ask for none, and are told by ConfigMaps which device to use. Names are KAI-Scheduler's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from quarterdeck.errors import SchemaError
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.settings import ReservationSettings

Document = Mapping[str, Any]

VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
PORTION: Final = "GPU_PORTION"
OLD_PORTION: Final = "RUNAI_NUM_OF_GPUS"
_CDI: Final = "k8s.device-plugin.nvidia.com/gpu={}"
_SUFFIX: Final = "shared-gpu"
_LONGEST_VOLUME_NAME: Final = 63
_ADDED: Final = len("-") + 7 + len("-") + len(_SUFFIX) + len("-i0") + len("-evar") + len("-vol") + 1
"""Characters beyond the owner's name in the longest name that is derived from it."""


class ConfigMaps(NamedTuple):
    """The names of a pod's ConfigMaps, and where the device is written."""

    capabilities: str
    environment: str
    device_in: str


def group_labels(groups: tuple[str, ...]) -> dict[str, str]:
    """The labels of a pod that holds shared GPUs."""
    if len(groups) == 1:
        return {names.GPU_GROUP_LABEL: groups[0]}
    return {f"{names.GPU_GROUP_LABEL}/{group}": group for group in groups}


def reservation_name(node: str, group: str) -> str:
    """Always the same for a shared GPU: whoever makes it twice makes it once."""
    digest = hashlib.sha256(group.encode()).hexdigest()[:10]
    return f"gpu-reservation-{node[:200]}-{digest}"


def is_reservation(pod: Document) -> bool:
    """Whether a pod reserves a device for others."""
    return (pod["metadata"].get("labels") or {}).get(names.APP_LABEL) == names.RESERVATION_APP


def reservation_pod(
    settings: ReservationSettings, node: str, group: str, tolerations: Sequence[Document] = ()
) -> dict[str, Any]:
    """The pod that asks the device plugin of a node for the device.

    It tolerates what the pod does that it is made for: a taint must not drive it off the node alone.
    """
    device = {names.GPU_RESOURCE: "1"}
    container: dict[str, Any] = {
        "name": "resource-reservation",
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"limits": device, "requests": device},
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        ],
    }
    if settings.command:
        container["command"] = list(settings.command)
    spec: dict[str, Any] = {
        "nodeName": node,
        "serviceAccountName": settings.service_account,
        "containers": [container],
    }
    if tolerations:
        spec["tolerations"] = [dict(each) for each in tolerations]
    if settings.runtime_class:
        spec["runtimeClassName"] = settings.runtime_class
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": reservation_name(node, group),
            "namespace": settings.namespace,
            "labels": {names.APP_LABEL: names.RESERVATION_APP, names.GPU_GROUP_LABEL: group},
            "annotations": {"karpenter.sh/do-not-disrupt": "true"},
        },
        "spec": spec,
    }


def _place(pod: Document) -> tuple[str, int]:
    """Which container uses the device: the first, unless an annotation names another."""
    wanted = (pod["metadata"].get("annotations") or {}).get(names.GPU_FRACTION_CONTAINER_ANNOTATION)
    spec = pod.get("spec") or {}
    if wanted is None:
        return "containers", 0
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            if container["name"] == wanted:
                return field, index
    raise SchemaError(f"container with name {wanted} not found for fraction request")


def config_maps_of(pod: Document) -> ConfigMaps:
    """The ConfigMaps of a pod that shares a GPU; ``SchemaError`` if admission did not name them."""
    metadata = pod["metadata"]
    prefix = (metadata.get("annotations") or {}).get(names.SHARED_GPU_CONFIG_MAP_ANNOTATION)
    if prefix is None:
        where = f"{metadata.get('namespace', '')}/{metadata['name']}"
        raise SchemaError(f"no desired configmap name found in pod {where} annotations: create the pod anew")
    field, index = _place(pod)
    capabilities = f"{prefix}-{'i' if field == 'initContainers' else ''}{index}"
    container = pod["spec"][field][index]
    reads = any(
        each.get("name") == VISIBLE_DEVICES and (each.get("valueFrom") or {}).get("configMapKeyRef")
        for each in container.get("env") or ()
    )
    environment = f"{capabilities}-evar"
    return ConfigMaps(capabilities, environment, capabilities if reads else environment)


def environment_of(settings: ReservationSettings, devices: list[str], portion: str) -> tuple[str, str]:
    """What a container is told: which devices it sees, and how much of each."""
    return ",".join(_CDI.format(each) if settings.uses_cdi else each for each in devices), portion


def prepare_pod(pod: dict[str, Any], token: str) -> None:
    """Let the container that shares GPUs read its devices from ConfigMaps that the binder will make.

    ``token`` tells the ConfigMaps of pods with one owner apart.
    """
    metadata = pod["metadata"]
    annotations = metadata.setdefault("annotations", {})
    if names.SHARED_GPU_CONFIG_MAP_ANNOTATION not in annotations:
        owners = metadata.get("ownerReferences") or ()
        base = owners[0]["name"] if owners else metadata.get("name") or metadata.get("generateName", "pod")
        base = base[: _LONGEST_VOLUME_NAME - _ADDED].rstrip("-.")
        annotations[names.SHARED_GPU_CONFIG_MAP_ANNOTATION] = f"{base}-{token}-{_SUFFIX}"
    field, index = _place(pod)
    container = pod["spec"][field][index]
    maps = config_maps_of({**pod, "metadata": {"name": "", **metadata}})
    told = {PORTION, OLD_PORTION, VISIBLE_DEVICES}
    container["env"] = [
        *(each for each in container.get("env") or () if each["name"] not in told),
        *(
            {"name": name, "valueFrom": {"configMapKeyRef": {"name": maps.capabilities, "key": name}}}
            for name in (VISIBLE_DEVICES, OLD_PORTION, PORTION)
        ),
    ]
    sources = container.setdefault("envFrom", [])
    if not any((each.get("configMapRef") or {}).get("name") == maps.environment for each in sources):
        sources.append({"configMapRef": {"name": maps.environment, "optional": False}})
    volume = f"{maps.capabilities}-vol"
    spec = pod["spec"]
    spec["volumes"] = [
        *(each for each in spec.get("volumes") or () if each["name"] != volume),
        {"name": volume, "configMap": {"name": maps.capabilities}},
    ]
