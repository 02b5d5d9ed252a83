"""Admission checks DefaultTolerationSeconds and TaintNodesByCondition."""

from __future__ import annotations

from typing import Final

from quarterdeck.api.jsonobject import Json

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_SECONDS: Final = 300


def add_default_tolerations(pod: Json) -> None:
    """A pod stays on a node that is not ready or unreachable for five minutes, unless it says otherwise."""
    spec = pod["spec"]
    tolerations = spec.get("tolerations")
    missing = [NOT_READY, UNREACHABLE]
    for toleration in tolerations or ():
        if toleration.get("effect") in ("NoExecute", "", None):
            key = toleration.get("key")
            if not key:
                return
            if key in missing:
                missing.remove(key)
    if missing:
        added = [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
            for key in missing
        ]
        spec["tolerations"] = [*(tolerations or ()), *added]


def add_not_ready_taint(node: Json) -> None:
    """A new node takes no pods until its kubelet says that it is ready."""
    spec = node.get("spec")
    if spec is None:
        spec = node["spec"] = {}
    taints = spec.get("taints") or []
    for taint in taints:
        if taint.get("key") == NOT_READY and taint.get("effect") == "NoSchedule":
            return
    spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
