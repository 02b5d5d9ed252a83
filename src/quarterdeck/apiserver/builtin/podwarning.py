"""Warnings about pods that are accepted but likely not what was meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.apiserver.metadata import label_errors

_OLD_NODE_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
}


def pod_warnings(pod: Mapping[str, Any]) -> list[str]:
    """For a new pod."""
    warnings: list[str] = []
    meta: Mapping[str, Any] = pod.get("metadata") or {}
    if texts := label_errors(meta.get("name") or ""):
        shown = " ".join(texts)
        warnings.append(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
            f"a DNS label is recommended: [{shown}]"
        )
    return warnings + template_warnings(pod.get("spec") or {}, "spec")


def template_warnings(spec: Mapping[str, Any], field: str) -> list[str]:
    warnings: list[str] = []
    selector = spec.get("nodeSelector") or ()
    warnings += [
        f"{field}.nodeSelector[{key}]: {_OLD_NODE_LABELS[key]}" for key in selector if key in _OLD_NODE_LABELS
    ]
    for index, container in enumerate(spec.get("containers") or ()):
        names: set[str] = set()
        for position, variable in enumerate(container.get("env") or ()):
            name = variable.get("name") or ""
            if name in names:
                warnings.append(
                    f"{field}.containers[{index}].env[{position}]: hides previous definition of "
                    f'"{name}", which may be dropped when using apply'
                )
            names.add(name)
    if (grace := spec.get("terminationGracePeriodSeconds")) is not None and grace < 0:
        warnings.append(
            f"{field}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and "
            "will be treated as 1"
        )
    return warnings
