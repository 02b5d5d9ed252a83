"""The history's own user, what she may do in the first namespace, and how that is edited.

Every edit names another resource that nobody has, so that a review shows when the edit is in force.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]
USER: Final = "$u-jane"
_API: Final = "/apis/rbac.authorization.k8s.io/v1/namespaces/$u-a"
REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
ROLES: Final = f"{_API}/roles"
BINDINGS: Final = f"{_API}/rolebindings"
FORMS: Final = (
    ["get"],
    ["get", "list", "watch"],
    ["get", "create", "update", "patch"],
    ["*"],
)


@dataclass(frozen=True)
class Access:
    """generation: the number of the edit. verbs: what the user may do to whatever the history has."""

    generation: int
    verbs: tuple[str, ...]
    groups: tuple[str, ...]

    def role(self) -> Json:
        return {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": "jane"},
            "rules": self.rules(),
        }

    def rules(self) -> list[Json]:
        mark = {"apiGroups": ["mark.example.com"], "resources": [self._mark], "verbs": ["get"]}
        return [{"apiGroups": list(self.groups), "resources": ["*"], "verbs": list(self.verbs)}, mark]

    @staticmethod
    def binding() -> Json:
        group = "rbac.authorization.k8s.io"
        return {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "jane"},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "jane"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": USER}],
        }

    def review(self) -> Json:
        asked = {"namespace": "$u-a", "verb": "get", "group": "mark.example.com", "resource": self._mark}
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": USER, "resourceAttributes": asked},
        }

    @property
    def _mark(self) -> str:
        return f"mark-{self.generation}"
