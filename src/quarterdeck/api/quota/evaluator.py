"""What all evaluators have in common; by itself it counts the objects of a resource.

A quota matches an object if it limits something the evaluator tracks and all its scopes choose the object.
Scopes only ever choose pods and claims: a quota with a scope matches no object of another kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

from quarterdeck.api.quantity import Quantity
from quarterdeck.api.quota.amount import Amounts
from quarterdeck.errors import SchemaError

Document: TypeAlias = Mapping[str, Any]
Operation: TypeAlias = Literal["CREATE", "UPDATE"]
ONE: Final = Quantity("1")


def count_name(group: str, resource: str) -> str:
    """What a quota calls the number of objects: ``count/deployments.apps``."""
    return f"count/{resource}.{group}" if group else f"count/{resource}"


def scope_selectors(quota: Document) -> list[Document]:
    """The scopes of a quota in their long form."""
    spec = quota.get("spec") or {}
    short: list[Document] = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    return [*short, *((spec.get("scopeSelector") or {}).get("matchExpressions") or ())]


def is_selected(selector: Document, value: str) -> bool:
    """Whether a scope's operator and values accept a name; the empty name is none at all."""
    operator, values = selector.get("operator") or "", selector.get("values") or ()
    tests: Mapping[str, Callable[[], bool]] = {
        "In": lambda: bool(value) and value in values,
        "NotIn": lambda: value not in values,
        "Exists": lambda: bool(value),
        "DoesNotExist": lambda: not value,
    }
    if operator not in tests:
        raise SchemaError(f'"{operator}" is not a valid scope selector operator')
    return tests[operator]()


class Evaluator:
    """Counts the objects of one resource."""

    def __init__(self, group: str, resource: str, *, alias: str = "") -> None:
        """``alias`` is a second name that quotas may use for the number of objects."""
        self.group: Final = group
        self.resource: Final = resource
        self._names: Final = tuple(filter(None, (count_name(group, resource), alias)))

    def handles(self, operation: Operation, subresource: str, obj: Document, old: Document | None) -> bool:
        """Whether such a request may change what is used."""
        return operation == "CREATE" and not subresource

    def is_tracked(self, name: str) -> bool:
        """Whether objects of this resource count for a name that quotas limit."""
        return name in self._names

    def tracked(self, names: Iterable[str]) -> list[str]:
        """Those of the names that objects of this resource count for."""
        return [name for name in names if self.is_tracked(name)]

    def is_in_scope(self, selector: Document, obj: Document) -> bool:
        """Whether a scope chooses an object; raises ``SchemaError`` for a scope that makes no sense."""
        return False

    def is_in_scopes(self, quota: Document, obj: Document) -> bool:
        """Whether all scopes of a quota choose an object."""
        return all(self.is_in_scope(selector, obj) for selector in scope_selectors(quota))

    def matches(self, quota: Document, obj: Document) -> bool:
        """Whether an object is charged to a quota, as far as the quota's status knows what it limits."""
        hard = (quota.get("status") or {}).get("hard") or {}
        return bool(self.tracked(hard)) and self.is_in_scopes(quota, obj)

    def problem(self, names: Iterable[str], obj: Document) -> str:
        """What an object must say to be measured for these names, and does not; empty if nothing."""
        return ""

    def usage(self, obj: Document, now: float) -> Amounts:
        """What an object uses at a time (seconds since 1970)."""
        return dict.fromkeys(self._names, ONE)

    def frees(self, old: Document, new: Document, now: float) -> bool:
        """Whether an update that admission did not charge for changes what is used."""
        return False
