"""Devices and claims for them, in a few words."""

from __future__ import annotations

from typing import Any

from .kaikit import NS, Json, pod

DRIVER = "gpu.example.com"


def device(name: str, **more: Any) -> Json:
    attributes = {"model": {"string": "h100"}, "numa": {"int": 0}, "driver": {"version": "1.2.3"}}
    capacity = {"memory": {"value": "80Gi"}}
    return {"name": name, "attributes": attributes, "capacity": capacity, **more}


def slice_of(node: str, *devices: Json, generation: int = 1, count: int = 1, name: str = "") -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"{node}-devices"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": generation, "resourceSliceCount": count},
            "devices": list(devices),
        },
    }


def device_class(name: str = DRIVER, *expressions: str, **spec: Any) -> Json:
    selectors = [{"cel": {"expression": each}} for each in expressions or (f'device.driver == "{DRIVER}"',)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors, **spec},
    }


def exactly(count: int = 1, *expressions: str, of: str = DRIVER, **more: Any) -> Json:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    return {"deviceClassName": of, "count": count, "selectors": selectors, **more}


def resource_claim(name: str = "gpus", *, labels: Json | None = None, **request: Any) -> Json:
    wanted = request or {"exactly": exactly()}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": NS, "labels": labels or {"kai.scheduler/queue": "team"}},
        "spec": {"devices": {"requests": [{"name": "gpu", **wanted}]}},
    }


def user(name: str, claim: str, of: str = "g") -> Json:
    return pod(name, of, 0, resourceClaims=[{"name": "devices", "resourceClaimName": claim}])
