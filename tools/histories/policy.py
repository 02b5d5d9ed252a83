"""The history's own admission policy: it refuses some ConfigMaps of the first namespace.

Its message has the number of the edit, so that a dry run shows when the edit is in force.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]
_API: Final = "/apis/admissionregistration.k8s.io/v1"
_POLICIES: Final = f"{_API}/validatingadmissionpolicies"
_BINDINGS: Final = f"{_API}/validatingadmissionpolicybindings"
_NAME: Final = "$u.example.com"


@dataclass(frozen=True)
class Policy:
    """generation: the number of the edit. refused: the label `app` that is not admitted."""

    generation: int
    refused: str

    @property
    def refusal(self) -> str:
        return f"refused by edit {self.generation}"

    def creation(self) -> list[tuple[str, str, Json | None]]:
        policy = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": _NAME},
            "spec": self._spec(),
        }
        binding = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": _NAME},
            "spec": {"policyName": _NAME, "validationActions": ["Deny"]},
        }
        return [("POST", _POLICIES, policy), ("POST", _BINDINGS, binding)]

    def edit(self) -> list[tuple[str, str, Json | None]]:
        return [("PATCH", f"{_POLICIES}/{_NAME}", {"spec": {"validations": self._spec()["validations"]}})]

    @staticmethod
    def removal() -> list[tuple[str, str, Json | None]]:
        return [("DELETE", f"{_BINDINGS}/{_NAME}", None), ("DELETE", f"{_POLICIES}/{_NAME}", None)]

    def _spec(self) -> Json:
        label = f"'app' in object.metadata.labels && object.metadata.labels.app == '{self.refused}'"
        rule = f"object.metadata.name != 'probe' && !(has(object.metadata.labels) && {label})"
        return {
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "$u-a"}},
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["configmaps"],
                        "operations": ["*"],
                    }
                ],
            },
            "matchConditions": [{"name": "has-object", "expression": "object != null"}],
            "validations": [{"expression": rule, "message": self.refusal}],
        }
