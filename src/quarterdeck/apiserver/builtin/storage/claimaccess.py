"""Who may change which part of a ResourceClaim's status: `resourceclaims/status` alone is not enough for all.

Binding a claim (its allocation, and who it is reserved for) needs `resourceclaims/binding`; what a driver
reports of its devices needs `resourceclaims/driver`, with a verb that says on which nodes. Neither is a
resource that can be asked for by itself.
"""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.kind import same
from quarterdeck.apiserver.metadata import subdomain_errors
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, forbidden

_NODE_NAME: Final = "authentication.kubernetes.io/node-name"
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"


def access_errors(status: Json, before: Json, ctx: WriteContext) -> list[FieldError]:
    """What of a change the requester may not make."""
    return _binding_errors(status, before, ctx) + _device_errors(status, before, ctx)


def _binding_errors(status: Json, before: Json, ctx: WriteContext) -> list[FieldError]:
    if all(same(status.get(key) or None, before.get(key) or None) for key in ("allocation", "reservedFor")):
        return []
    why = ctx.denied(ctx.verb, "binding")
    if not why:
        return []
    text = (
        'changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", '
        f'verb="{ctx.verb}" permission: {why}'
    )
    return [forbidden("status.allocation", text)]


def _device_errors(status: Json, before: Json, ctx: WriteContext) -> list[FieldError]:
    allocation = status.get("allocation")
    if not allocation:  # nothing is left of its devices
        return []
    errors: list[FieldError] = []
    verbs = [f"arbitrary-node:{ctx.verb}"]
    if _is_on(_node_of(allocation), ctx.requester):
        verbs.insert(0, f"associated-node:{ctx.verb}")
    for driver in _changed_drivers(status.get("devices") or [], before.get("devices") or []):
        refusals = [ctx.denied(verb, "driver", in_namespace=True, name=driver) for verb in verbs]
        if all(refusals):
            text = (
                f'changing status.devices requires resource="resourceclaims/driver", '
                f'verb="[{" ".join(verbs)}]" permission: {refusals[0]}'
            )
            errors.append(forbidden("status.devices", text))
    return errors


def _changed_drivers(devices: list[Json], before: list[Json]) -> list[str]:
    def keyed(listed: list[Json]) -> dict[tuple[Any, ...], Json]:
        return {
            tuple(each.get(part) for part in ("driver", "pool", "device", "shareID")): each for each in listed
        }

    new, old = keyed(devices), keyed(before)
    changed = [key for key in new.keys() | old.keys() if not same(new.get(key), old.get(key))]
    return sorted({key[0] or "" for key in changed})


def _node_of(allocation: Json) -> str:
    """The one node that an allocation is for, if it is for one by name."""
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions") or len(terms[0].get("matchFields") or ()) != 1:
        return ""
    [field] = terms[0]["matchFields"]
    values = field.get("values") or []
    is_named = (field.get("key"), field.get("operator"), len(values)) == ("metadata.name", "In", 1)
    return values[0] if is_named else ""


def _is_on(node: str, requester: Json) -> bool:
    """Whether a service account speaks for a pod on that node."""
    names = (requester.get("extra") or {}).get(_NODE_NAME) or []
    is_account = (requester.get("username") or "").startswith(_SERVICE_ACCOUNT)
    return bool(node) and is_account and list(names) == [node] and not subdomain_errors(node)
