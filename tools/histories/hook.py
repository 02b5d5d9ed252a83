"""The history's own admission webhook for some kinds in the first namespace: added, edited, broken, mended.

What it does is in the path it is called by, with the number of the edit, so that a dry run shows when the
edit is in force. `$hook` and `$ca` are the address and the authority of the endpoint that the run has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]
PATH: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
NAMED: Final = f"{PATH}/$u.example.com"
FORMS: Final = ("deny", "warn", "label", "broken")
_WRITES: Final = ["CREATE", "UPDATE"]
_MOST_EDITS: Final = 40


@dataclass(frozen=True)
class Hook:
    """generation: the number of the edit. form: one of FORMS. has_widgets: whether it is asked about them."""

    generation: int
    form: str
    has_widgets: bool

    @property
    def sign(self) -> str:
        """What an answer says when this edit is in force."""
        return "failed calling webhook" if self.form == "broken" else _sign(self.generation)

    @property
    def code(self) -> int:
        """Of the probe's answer."""
        return {"deny": 403, "broken": 500}.get(self.form, 201)

    def document(self) -> Json:
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "$u.example.com"},
            "webhooks": self.webhooks(),
        }

    def webhooks(self) -> list[Json]:
        url = f"$hook/{self.form}-{self.generation}"
        rules = [
            {"apiGroups": [group], "apiVersions": [version], "resources": [resource], "operations": _WRITES}
            # the last two have another version, which they are converted from
            for group, version, resource in (
                ("", "v1", "configmaps"),
                ("$u.example.com", "v1", "widgets"),
                ("autoscaling", "v2", "horizontalpodautoscalers"),
            )
            if resource != "widgets" or self.has_widgets
        ]
        return [
            {
                "name": "hook.$u.example.com",
                "clientConfig": {"url": url, "caBundle": "$ca"},
                "rules": rules,
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "$u-a"}},
                # neither what streams are read by, nor what asks for the policy
                "objectSelector": {
                    "matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["all"]}]
                },
                "matchConditions": [{"name": "no-probe", "expression": "object.metadata.name != 'probe'"}],
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
            }
        ]


def scripts() -> dict[str, Json]:
    """What the endpoint answers, by the last part of the path."""
    found: dict[str, Json] = {}
    for number in range(1, _MOST_EDITS):
        sign = _sign(number)
        labels = {"op": "add", "path": "/metadata/labels", "value": {"app": "b", "edit": sign}}
        found[f"deny-{number}"] = {"response": {"allowed": False, "status": {"message": sign, "code": 403}}}
        found[f"warn-{number}"] = {"response": {"allowed": True, "warnings": [sign]}}
        found[f"label-{number}"] = {"response": {"allowed": True, "patch": [labels]}}
        found[f"broken-{number}"] = {"httpStatus": 500}
    return found


def _sign(number: int) -> str:
    return f"hook-edit-{number}"
