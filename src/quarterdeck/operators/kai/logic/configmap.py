"""Which ConfigMaps a pod cannot start without."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from quarterdeck.operators.kai import names

Document = Mapping[str, Any]


def required_config_maps(pod: Document) -> tuple[str, ...]:
    """Names of ConfigMaps that containers mount or read, without optional ones and those of shared GPUs."""
    spec = pod.get("spec") or {}
    containers = [
        each
        for field in ("initContainers", "containers", "ephemeralContainers")
        for each in spec.get(field) or ()
    ]
    mounted = {mount["name"] for each in containers for mount in each.get("volumeMounts") or ()}
    volumes = [each for each in spec.get("volumes") or () if each["name"] in mounted]
    references = [reference for each in volumes for reference in _of_volume(each)]
    references += [reference for each in containers for reference in _of_environment(each)]
    own = (pod["metadata"].get("annotations") or {}).get(names.SHARED_GPU_CONFIG_MAP_ANNOTATION)
    found = {each["name"] for each in references if each.get("name") and not each.get("optional")}
    return tuple(sorted(name for name in found if own is None or not name.startswith(own)))


def missing_config_maps(missing: Iterable[str]) -> str:
    """What is said about a pod whose ConfigMaps do not exist."""
    return f"Missing required configmaps: [{' '.join(missing)}]"


def _of_volume(volume: Document) -> Iterator[Document]:
    if volume.get("configMap"):
        yield volume["configMap"]
    for source in (volume.get("projected") or {}).get("sources") or ():
        if source.get("configMap"):
            yield source["configMap"]


def _of_environment(container: Document) -> Iterator[Document]:
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("configMapKeyRef")
        if reference:
            yield reference
    for source in container.get("envFrom") or ():
        if source.get("configMapRef"):
            yield source["configMapRef"]
