"""The history's own ResourceQuota of the first namespace.

Nothing counts what is used here but admission; the steps write the first status themselves. Every edit allows
another amount of a resource that nobody has, so that a dry run shows when the edit is in force.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]
PATH: Final = "/api/v1/namespaces/$u-a/resourcequotas"
NAMED: Final = f"{PATH}/quota"
PODS: Final = "/api/v1/namespaces/$u-a/pods"
COUNTED: Final = (
    "pods",
    "configmaps",
    "services",
    "secrets",
    "count/configmaps",
    "count/deployments.apps",
    "count/jobs.batch",
    "count/widgets.$u.example.com",
)
_MARK: Final = "example.com/mark"


@dataclass(frozen=True)
class Quota:
    """generation: the number of the edit. hard: the amounts by what is counted."""

    generation: int
    hard: tuple[tuple[str, int], ...]

    def document(self) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "quota"},
            "spec": {"hard": self._amounts()},
        }

    def status(self, *, is_new: bool) -> Json:
        """As its controller would write it, of an empty namespace."""
        used = dict.fromkeys(self._amounts(), "0") if is_new else {}
        return {"status": {"hard": self._amounts(), "used": used}}

    def edit(self) -> Json:
        return {"spec": {"hard": self._amounts()}}

    def _amounts(self) -> Json:
        return {**{name: str(count) for name, count in self.hard}, f"requests.{_MARK}": self._mark}

    @property
    def sign(self) -> str:
        """What a refusal of the probe says when this edit is in force."""
        return f"{_MARK}={self._mark}"

    @property
    def _mark(self) -> str:
        return str(100 + self.generation)


def probe() -> Json:
    resources = {"requests": {_MARK: "1000"}, "limits": {_MARK: "1000"}}
    container = {"name": "main", "image": "image:1", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "quota-probe"},
        "spec": {"containers": [container]},
    }
