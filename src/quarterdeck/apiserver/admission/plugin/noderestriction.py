"""NodeRestriction: a node writes its own Node, lease, slices and the pods bound to it, and nothing else.

Who is a node is decided by the name `system:node:NAME` and the group system:nodes. What a node may read is
the Node authorizer's part (`auth.nodeauthorizer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from cryptography.x509.oid import NameOID

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.admission.attributes import Attributes, Decision, labels_of
from quarterdeck.apiserver.auth.attributes import AccessAttributes
from quarterdeck.apiserver.auth.user import node_identity
from quarterdeck.apiserver.builtin.pod.reference import referenced_kind
from quarterdeck.wire import gostyle

from .base import CREATE, DELETE, UPDATE, Plugin, annotations_of, keys, spec_of
from .certificate import parse_request
from .serviceaccount import MIRROR

_WRITES: Final = (CREATE, UPDATE, DELETE)
_LEASES: Final = "kube-node-lease"
_RESTRICTED_LABELS: Final = "node-restriction.kubernetes.io"
_KUBELET_LABELS: Final = frozenset(
    (
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
    )
)
_KUBELET_LABEL_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBELET_SIGNERS: Final = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")
#: what a node may report about a claim
_CLAIM_STATUS: Final = ("capacity", "conditions", "allocatedResources", "allocatedResourceStatuses")
_UPDATE_OWN_PODS: Final = "update pod status for pods with spec.nodeName set to itself"
_POD_SUBRESOURCES: Final = ("binding", "status", "eviction", "ephemeralcontainers", "resize")


class NodeRestriction(Plugin):
    """Refuses what a node writes beyond its own."""

    name = "NodeRestriction"
    only_nodes = True
    mutates = (
        keys("", ("pods", *(f"pods/{each}" for each in _POD_SUBRESOURCES)), _WRITES)
        | keys("", ("nodes", "nodes/status", "persistentvolumeclaims"), _WRITES)
        | keys("", ("persistentvolumeclaims/status",), (UPDATE,))
        | keys("", ("serviceaccounts/token",), (CREATE,))
        | keys("coordination.k8s.io", ("leases",), _WRITES)
        | keys("storage.k8s.io", ("csinodes",), _WRITES)
        | keys("resource.k8s.io", ("resourceslices",), _WRITES)
        | keys("certificates.k8s.io", ("certificatesigningrequests",), (CREATE,))
    )

    def __init__(self, authorize: Callable[[AccessAttributes], Decision]) -> None:
        self._authorize = authorize

    def mutate(self, attributes: Attributes) -> None:
        node = node_identity(attributes.user)
        if not node:
            user = gostyle.quote(attributes.user.name)
            raise attributes.forbidden(f"could not determine node from user {user}")
        for why in self._problems(node, attributes):
            raise attributes.forbidden(why)

    def _problems(self, node: str, attributes: Attributes) -> Iterator[str]:
        match attributes.resource:
            case "pods":
                yield from _pod_problems(node, attributes)
            case "nodes":
                yield from _node_problems(node, attributes)
            case "persistentvolumeclaims":
                yield from _claim_problems(node, attributes)
            case "serviceaccounts":
                yield from self._token_problems(node, attributes)
            case "leases":
                if attributes.namespace != _LEASES:
                    yield f'can only access leases in the "{_LEASES}" system namespace'
                if attributes.name != node:
                    yield "can only access node lease with the same name as the requesting node"
            case "csinodes":
                if attributes.name != node:
                    yield "can only access CSINode with the same name as the requesting node"
            case "resourceslices":
                yield from _slice_problems(node, attributes)
            case "certificatesigningrequests":
                yield from _certificate_problems(node, attributes)

    def _token_problems(self, node: str, attributes: Attributes) -> Iterator[str]:
        spec = spec_of(attributes.object)
        bound = spec.get("boundObjectRef") or {}
        name, uid = bound.get("name"), bound.get("uid")
        if bound.get("apiVersion") != "v1" or bound.get("kind") != "Pod" or not name:
            yield "node requested token not bound to a pod"
            return
        if not uid:
            yield "node requested token with a pod binding without a uid"
        pod = attributes.context.cluster.get("", "pods", attributes.namespace, name)
        if pod is None:
            raise status.not_found("pod", "", name)
        if pod["metadata"]["uid"] != uid:
            yield (
                f"the UID in the bound object reference ({uid}) does not match the UID in record. The object "
                "might have been deleted and then recreated"
            )
        if spec_of(pod).get("nodeName") != node:
            yield "node requested token bound to a pod scheduled on a different node"
        audiences = spec.get("audiences") or [""]
        if len(audiences) > 1:
            yield "node may only request 0 or 1 audiences"
        yield from self._audience_problems(attributes, pod, audiences[0])

    def _audience_problems(self, attributes: Attributes, pod: Json, audience: str) -> Iterator[str]:
        if audience in _audiences(pod, attributes):
            return
        question = AccessAttributes(
            user=attributes.user,
            verb="request-serviceaccounts-token-audience",
            version="v1",
            resource=audience,
            namespace=attributes.namespace,
            name=attributes.name,
        )
        if not self._authorize(question).allowed:
            yield (
                f"audience {gostyle.quote(audience)} not found in pod spec volume, {attributes.user.name} is "
                "not authorized to request tokens for this audience"
            )


def _audiences(pod: Json, attributes: Attributes) -> set[str]:
    """Those that the pod's volumes ask tokens for, themselves or through their CSI driver."""
    cluster = attributes.context.cluster
    found: set[str] = set()
    for volume in spec_of(pod).get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if source.get("serviceAccountToken") is not None:
                found.add(source["serviceAccountToken"].get("audience") or "")
        driver = (volume.get("csi") or {}).get("driver")
        claim_name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if volume.get("ephemeral") is not None:
            claim_name = f"{pod['metadata']['name']}-{volume['name']}"
        if claim_name:
            claim = cluster.get("", "persistentvolumeclaims", attributes.namespace, claim_name)
            bound = cluster.get("", "persistentvolumes", "", spec_of(claim).get("volumeName") or "")
            driver = (spec_of(bound).get("csi") or {}).get("driver")
        if driver:
            known = cluster.get("storage.k8s.io", "csidrivers", "", driver)
            found |= {each.get("audience") or "" for each in spec_of(known).get("tokenRequests") or ()}
    return found


def _pod_problems(node: str, attributes: Attributes) -> Iterator[str]:
    shown, operation = gostyle.quote(node), attributes.operation
    match attributes.subresource:
        case "":
            if operation == CREATE:
                yield from _mirror_problems(node, attributes)
            elif operation == DELETE:
                if spec_of(attributes.old_object).get("nodeName") != node:
                    yield f"node {shown} can only delete pods with spec.nodeName set to itself"
            else:
                yield (
                    f'unexpected operation "{operation}", node {shown} can only create and delete mirror pods'
                )
        case "status":
            yield from _pod_status_problems(shown, node, attributes)
        case "eviction":
            pod = attributes.context.cluster.get("", "pods", attributes.namespace, attributes.name)
            if pod is None:
                raise status.not_found("pod", "", attributes.name)
            if spec_of(pod).get("nodeName") != node:
                yield f"node {node} can only evict pods with spec.nodeName set to itself"
        case other:
            only = "only 'status' and 'eviction' are allowed"
            yield f"unexpected pod subresource {gostyle.quote(other)}, {only}"


def _mirror_problems(node: str, attributes: Attributes) -> Iterator[str]:
    shown, pod = gostyle.quote(node), attributes.object or {}
    if MIRROR not in annotations_of(pod):
        yield f'pod does not have "{MIRROR}" annotation, node {shown} can only create mirror pods'
    if spec_of(pod).get("nodeName") != node:
        yield f"node {shown} can only create pods with spec.nodeName set to itself"
    owners = pod["metadata"].get("ownerReferences") or []
    if len(owners) > 1:
        yield f"node {shown} can only create pods with a single owner reference set to itself"
    owner = owners[0] if owners else {}
    if (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) != ("v1", "Node", node):
        yield f"node {shown} can only create pods with an owner reference set to itself"
    if not owner.get("controller"):
        yield f"node {shown} can only create pods with a controller owner reference set to itself"
    if owner.get("blockOwnerDeletion"):
        yield f"node {shown} must not set blockOwnerDeletion on an owner reference"
    known = attributes.context.cluster.get("", "nodes", "", node)
    if known is None:
        raise status.not_found("node", "", node)
    uid = known["metadata"]["uid"]
    if owner.get("uid") != uid:
        yield f"node {node} UID mismatch: expected {owner.get('uid')} got {uid}"
    if kind := referenced_kind(spec_of(pod)):
        yield f"node {shown} can not create pods that reference {kind}"


def _pod_status_problems(shown: str, node: str, attributes: Attributes) -> Iterator[str]:
    new, old = attributes.object or {}, attributes.old_object or {}
    if spec_of(old).get("nodeName") != node:
        yield f"node {shown} can only {_UPDATE_OWN_PODS}"
    if labels_of(new) != labels_of(old):
        yield f"node {shown} cannot update labels through pod status"
    after, before = new.get("status") or {}, old.get("status") or {}
    if (after.get("resourceClaimStatuses") or []) != (before.get("resourceClaimStatuses") or []):
        yield f"node {shown} cannot update resource claim statues"
    if after.get("extendedResourceClaimStatus") != before.get("extendedResourceClaimStatus"):
        yield f"node {shown} cannot update extended resource claim status"


def _node_problems(node: str, attributes: Attributes) -> Iterator[str]:
    shown, asked = gostyle.quote(node), attributes.name
    if asked != node:
        yield f"node {shown} is not allowed to modify node {gostyle.quote(asked)}"
    new, old = attributes.object or {}, attributes.old_object or {}
    if attributes.operation == CREATE:
        if spec_of(new).get("configSource") is not None:
            yield f"node {shown} is not allowed to create pods with a non-nil configSource"
        if labels := _forbidden_labels(labels_of(new), {}):
            yield f"node {shown} is not allowed to set the following labels: {', '.join(labels)}"
    elif attributes.operation == UPDATE:
        source = spec_of(new).get("configSource")
        if source is not None and source != spec_of(old).get("configSource"):
            yield f"node {shown} is not allowed to update configSource to a new non-nil configSource"
        if (spec_of(new).get("taints") or []) != (spec_of(old).get("taints") or []):
            yield f"node {shown} is not allowed to modify taints"
        if (new["metadata"].get("ownerReferences") or []) != (old["metadata"].get("ownerReferences") or []):
            yield f"node {shown} is not allowed to modify ownerReferences"
        if labels := _forbidden_labels(labels_of(new), labels_of(old)):
            yield f"is not allowed to modify labels: {', '.join(labels)}"


def _forbidden_labels(new: dict[str, str], old: dict[str, str]) -> list[str]:
    changed = {key for key in new.keys() | old.keys() if new.get(key) != old.get(key)}
    return sorted(key for key in changed if _is_forbidden(key))


def _is_forbidden(label: str) -> bool:
    prefix, slash, _ = label.partition("/")
    domain = prefix if slash else ""
    if _is_within(domain, _RESTRICTED_LABELS):
        return True
    if not (_is_within(domain, "kubernetes.io") or _is_within(domain, "k8s.io")):
        return False
    return label not in _KUBELET_LABELS and not any(
        _is_within(domain, allowed) for allowed in _KUBELET_LABEL_DOMAINS
    )


def _is_within(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


def _claim_problems(node: str, attributes: Attributes) -> Iterator[str]:
    if attributes.subresource != "status":
        yield "may only update PVC status"
        return

    def shown(claim: Json | None) -> Json:
        obj = claim or {}
        metadata = {
            key: value
            for key, value in (obj.get("metadata") or {}).items()
            if key not in ("resourceVersion", "managedFields")
        }
        rest = {key: value for key, value in (obj.get("status") or {}).items() if key not in _CLAIM_STATUS}
        return {**obj, "metadata": metadata, "status": rest}

    if shown(attributes.object) != shown(attributes.old_object):
        yield (
            f"node {gostyle.quote(node)} is not allowed to update fields other than status.quantity and "
            "status.conditions"
        )


def _slice_problems(node: str, attributes: Attributes) -> Iterator[str]:
    if attributes.operation == CREATE and spec_of(attributes.object).get("nodeName") != node:
        yield "can only create ResourceSlice with the same NodeName as the requesting node"
    if attributes.operation == DELETE and spec_of(attributes.old_object).get("nodeName") != node:
        yield "can only delete ResourceSlice with the same NodeName as the requesting node"


def _certificate_problems(node: str, attributes: Attributes) -> Iterator[str]:
    spec: dict[str, Any] = spec_of(attributes.object)
    if spec.get("signerName") not in _KUBELET_SIGNERS:
        return
    try:
        request = parse_request(spec.get("request") or "")
    except ValueError as error:
        yield f"unable to parse csr: {error}"
        return
    names = request.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if [each.value for each in names] != [f"system:node:{node}"]:
        yield f"can only create a node CSR with CN=system:node:{node}"
