"""How large an object may be: the limits of the storage upstream has, in its words."""

from __future__ import annotations

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.resource.resource import Resource

#: etcd's limits for a request and for the message that carries it
_MAX_STORED = 3 * 512 * 1024
_MAX_MESSAGE = 2 * 1024 * 1024
#: values up to this size are within the limits, whatever their key
ROOMY = _MAX_STORED - 4096
#: resources that are stored under other names than they are served
_OTHER_NAMES = {
    "replicationcontrollers": "controllers",
    "services": "services/specs",
    "endpoints": "services/endpoints",
    "nodes": "minions",
}


def etcd_key(resource: Resource, meta: Json) -> str:
    """The key upstream's storage would use; it shows in one error text."""
    plural = resource.plural if resource.group else _OTHER_NAMES.get(resource.plural, resource.plural)
    parts = ["registry", resource.group if resource.is_custom else "", plural]
    parts += [meta.get("namespace", ""), meta["name"]]
    return "/" + "/".join(part for part in parts if part)


def too_large(resource: Resource, obj: Json, value: bytes) -> str:
    """What upstream's storage says about an object of this size; empty if it takes it."""
    size = len(value) + 3 * len(etcd_key(resource, obj["metadata"])) + 16
    if size > _MAX_MESSAGE:
        return (
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max "
            f"({size} vs. {_MAX_MESSAGE})"
        )
    return "etcdserver: request is too large" if size > _MAX_STORED else ""
