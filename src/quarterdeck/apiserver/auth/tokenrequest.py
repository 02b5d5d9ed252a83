"""TokenRequest: `POST serviceaccounts/<name>/token`."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.wire import fielderror, gostyle

from .serviceaccount import Binding, Claims, ClusterReads, Reference, ServiceAccountTokens
from .user import service_account_username

_GROUP: Final = "authentication.k8s.io"
_KIND: Final = "TokenRequest"
DEFAULT_LIFETIME: Final = 3600
_SHORTEST: Final = 600
_LONGEST: Final = 1 << 32
_PROJECTED: Final = 3607
"""What kubelets ask for: such a pod-bound token lives for a year, to spare clients that never reload it."""
_EXTENDED: Final = 365 * 24 * 3600


def token_request(
    document: Mapping[str, Any],
    namespace: str,
    name: str,
    *,
    reads: ClusterReads,
    tokens: ServiceAccountTokens,
    now: float,
    new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
) -> Json:
    """Issue a token for a service account; answers the TokenRequest with its status.

    Raises 404 when the account or the bound object does not exist, 409 for a uid that is not theirs, 422
    and 400 for a request that makes no sense.
    """
    metadata = dict(document.get("metadata") or {})
    spec = document.get("spec") or {}
    if metadata.get("name") not in (None, "", name):
        _refuse("metadata.name", metadata["name"], "must match the service account name if specified", name)
    if metadata.get("namespace") not in (None, "", namespace):
        detail = "must match the service account namespace if specified"
        _refuse("metadata.namespace", metadata["namespace"], detail, name)
    account = reads.get("", "serviceaccounts", namespace, name)
    if account is None:
        raise status.not_found("serviceaccounts", "", name)
    uid = account["metadata"].get("uid", "")
    if metadata.get("uid") not in (None, "", uid):
        asked = f"the UID in the token request ({metadata['uid']})"
        why = f"{asked} does not match the UID of the service account ({uid})"
        raise status.conflict(_KIND, _GROUP, name, why)
    lifetime = spec.get("expirationSeconds")
    if lifetime is None:
        lifetime = DEFAULT_LIFETIME
    if lifetime < _SHORTEST:
        _refuse("spec.expirationSeconds", lifetime, "may not specify a duration less than 10 minutes")
    if lifetime > _LONGEST:
        _refuse("spec.expirationSeconds", lifetime, "may not specify a duration larger than 2^32 seconds")
    audiences = list(spec.get("audiences") or tokens.audiences)
    reference = spec.get("boundObjectRef")
    binding = Binding(namespace=namespace, serviceaccount=Reference(name, uid))
    if reference is not None:
        binding = _bind(binding, reference, reads)
    seconds, expires = int(now), int(now) + lifetime
    if binding.pod and lifetime == _PROJECTED and set(audiences) <= set(tokens.audiences):
        binding = msgspec.structs.replace(binding, warnafter=expires)
        expires = seconds + _EXTENDED
    claims = Claims(
        sub=service_account_username(namespace, name),
        aud=audiences,
        exp=expires,
        nbf=seconds,
        iat=seconds,
        jti=new_id(),
        kubernetes=binding,
    )
    metadata.update(name=name, namespace=namespace, uid=uid, creationTimestamp=_rfc3339(seconds))
    return {
        "kind": _KIND,
        "apiVersion": f"{_GROUP}/v1",
        "metadata": metadata,
        "spec": {"audiences": audiences, "expirationSeconds": lifetime, "boundObjectRef": reference},
        "status": {"token": tokens.issue(claims), "expirationTimestamp": _rfc3339(seconds + lifetime)},
    }


def _bind(binding: Binding, reference: Mapping[str, Any], reads: ClusterReads) -> Binding:
    """Bind the token to an object: it is invalid once the object is deleted."""
    kind, name = reference.get("kind", ""), reference.get("name", "")
    group, _, version = reference.get("apiVersion", "").rpartition("/")
    if group or kind not in ("Pod", "Secret", "Node"):
        raise status.bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    resource = f"{kind.lower()}s"
    bound = reads.get("", resource, "" if kind == "Node" else binding.namespace, name)
    if bound is None:
        raise status.not_found(resource, "", name)
    account = binding.serviceaccount.name
    if kind == "Pod" and (bound.get("spec") or {}).get("serviceAccountName") != account:
        raise status.bad_request(
            f"cannot bind token for serviceaccount {gostyle.quote(account)} "
            "to pod running with different serviceaccount name."
        )
    uid = bound["metadata"].get("uid", "")
    if reference.get("uid") not in (None, "", uid):
        raise status.conflict(
            kind,
            "",
            name,
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated",
        )
    target = Reference(name, uid)
    if kind == "Secret":
        return msgspec.structs.replace(binding, secret=target)
    if kind == "Node":
        return msgspec.structs.replace(binding, node=target)
    return msgspec.structs.replace(binding, pod=target, node=_node_of(bound, reads))


def _node_of(pod: Mapping[str, Any], reads: ClusterReads) -> Reference | None:
    """The node a pod runs on; without uid when that node is not there."""
    name = pod["spec"].get("nodeName")
    if not name:
        return None
    node = reads.get("", "nodes", "", name)
    return Reference(name, node["metadata"].get("uid", "") if node else "")


def _refuse(field: str, value: object, detail: str, name: str = "") -> None:
    raise status.invalid(_KIND, _GROUP, name, [fielderror.invalid(field, value, detail)])


def _rfc3339(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
