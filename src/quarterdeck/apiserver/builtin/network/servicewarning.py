"""Warnings about Services that are accepted but likely not what was meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.apiserver.builtin.formats import ip_warnings

_OLD_HINTS: Final = "service.kubernetes.io/topology-aware-hints"


def service_warnings(service: Mapping[str, Any]) -> list[str]:
    spec: Mapping[str, Any] = service.get("spec") or {}
    kind, external = spec.get("type"), spec.get("externalIPs") or ()
    warnings: list[str] = []
    if _OLD_HINTS in ((service.get("metadata") or {}).get("annotations") or ()):
        warnings.append(
            f"annotation {_OLD_HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead"
        )
    headless = kind == "ClusterIP" and spec.get("clusterIP") == "None"
    if not headless and spec.get("clusterIP"):
        for index, address in enumerate(spec.get("clusterIPs") or ()):
            warnings += ip_warnings(address, f"spec.clusterIPs[{index}]")
    if headless:
        ignored = {
            "loadBalancerIP": spec.get("loadBalancerIP"),
            "externalIPs": external,
            "SessionAffinity": spec.get("sessionAffinity") not in (None, "None"),
        }
        warnings += [
            f"spec.{key} is ignored for headless services" for key, given in ignored.items() if given
        ]
    for index, address in enumerate(external):
        warnings += ip_warnings(address, f"spec.externalIPs[{index}]")
    if external and not headless and kind != "ExternalName":
        warnings.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if balancer := spec.get("loadBalancerIP"):
        warnings += ip_warnings(balancer, "spec.loadBalancerIP")
    if external and kind == "ExternalName":
        warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if kind != "ExternalName" and spec.get("externalName"):
        warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        warnings.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return warnings
