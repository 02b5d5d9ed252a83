"""Tables of built-in kinds: which columns, and the cells of an object.

    columns(group, resource)             column definitions, wide ones with priority 1
    decoder(group, resource)             from an object's text to as much of it as its cells need
    cells(group, resource, obj, now)     one value per column
    row_conditions(group, resource, obj) what marks a row as finished (pods)
    age_column(group, resource)          the only cell that changes while the object does not

Objects come in any served version of their kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from quarterdeck.api.jsonobject import Json

from . import core as printcore
from . import other as printother
from . import pod as printpod
from . import workload as printworkload

Cells = Callable[[Json, datetime], list[Any]]

_NAME_DESCRIPTION: Final = "Name must be unique within a namespace."
_TYPES: Final = {"i": "integer", "b": "boolean", "d": "date"}

#: per resource: how to print it, and its columns. A column is `Name`, `Name:i` (integer, boolean, date),
#: with a trailing `*` for wide output.
_TABLES: Final[Mapping[tuple[str, str], tuple[Cells, str]]] = {
    ("", "componentstatuses"): (printcore.component_status_cells, "Name|Status|Message|Error"),
    ("", "configmaps"): (printcore.config_map_cells, "Name|Data|Age"),
    ("", "endpoints"): (printcore.endpoints_cells, "Name|Endpoints|Age"),
    ("", "events"): (
        printcore.event_cells,
        "Last Seen|Type|Reason|Object|Subobject*|Source*|Message|First Seen*|Count*|Name*",
    ),
    ("", "limitranges"): (printother.name_created_cells, "Name|Created At:d"),
    ("", "namespaces"): (printcore.namespace_cells, "Name|Status|Age"),
    ("", "nodes"): (
        printcore.node_cells,
        "Name|Status|Roles|Age|Version|Internal-IP*|External-IP*|OS-Image*|Kernel-Version*|Container-Runtime*",
    ),
    ("", "persistentvolumeclaims"): (
        printcore.claim_cells,
        "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode*",
    ),
    ("", "persistentvolumes"): (
        printcore.volume_cells,
        (
            "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason"
            "|Age|VolumeMode*"
        ),
    ),
    ("", "pods"): (
        printpod.pod_cells,
        "Name|Ready|Status|Restarts|Age|IP*|Node*|Nominated Node*|Readiness Gates*",
    ),
    ("", "podtemplates"): (printworkload.pod_template_cells, "Name|Containers|Images|Pod Labels"),
    ("", "replicationcontrollers"): (
        printworkload.replication_controller_cells,
        "Name|Desired:i|Current:i|Ready:i|Age|Containers*|Images*|Selector*",
    ),
    ("", "resourcequotas"): (printcore.quota_cells, "Name|Request|Limit|Age"),
    ("", "secrets"): (printcore.secret_cells, "Name|Type|Data|Age"),
    ("", "serviceaccounts"): (printother.name_age_cells, "Name|Age"),
    ("", "services"): (
        printcore.service_cells,
        "Name|Type|Cluster-IP|External-IP|Port(s)|Age|Selector*",
    ),
    ("apiregistration.k8s.io", "apiservices"): (
        printother.api_service_cells,
        "Name|Service|Available|Age",
    ),
    ("apps", "controllerrevisions"): (
        printworkload.controller_revision_cells,
        "Name|Controller|Revision|Age",
    ),
    ("apps", "daemonsets"): (
        printworkload.daemon_set_cells,
        (
            "Name|Desired:i|Current:i|Ready:i|Up-to-date:i|Available:i|Node Selector|Age|Containers*|Images*"
            "|Selector*"
        ),
    ),
    ("apps", "deployments"): (
        printworkload.deployment_cells,
        "Name|Ready|Up-to-date|Available|Age|Containers*|Images*|Selector*",
    ),
    ("apps", "replicasets"): (
        printworkload.replica_set_cells,
        "Name|Desired:i|Current:i|Ready:i|Age|Containers*|Images*|Selector*",
    ),
    ("apps", "statefulsets"): (
        printworkload.stateful_set_cells,
        "Name|Ready|Age|Containers*|Images*",
    ),
    ("autoscaling", "scales"): (printworkload.scale_cells, "Name|Desired:i|Available:i|Age"),
    ("autoscaling", "horizontalpodautoscalers"): (
        printworkload.autoscaler_cells,
        "Name|Reference|Targets|MinPods|MaxPods|Replicas|Age",
    ),
    ("batch", "cronjobs"): (
        printworkload.cron_job_cells,
        "Name|Schedule|Timezone|Suspend:b|Active:i|Last Schedule|Age|Containers*|Images*|Selector*",
    ),
    ("batch", "jobs"): (
        printworkload.job_cells,
        "Name|Status|Completions|Duration|Age|Containers*|Images*|Selector*",
    ),
    ("certificates.k8s.io", "certificatesigningrequests"): (
        printother.signing_request_cells,
        "Name|Age|SignerName|Requestor|RequestedDuration|Condition",
    ),
    ("networking.k8s.io", "ingressclasses"): (
        printother.ingress_class_cells,
        "Name|Controller|Parameters|Age",
    ),
    ("networking.k8s.io", "ingresses"): (
        printother.ingress_cells,
        "Name|Class|Hosts|Address|Ports|Age",
    ),
    ("networking.k8s.io", "ipaddresses"): (printother.ip_address_cells, "Name|ParentRef"),
    ("networking.k8s.io", "networkpolicies"): (
        printother.network_policy_cells,
        "Name|Pod-Selector|Age",
    ),
    ("networking.k8s.io", "servicecidrs"): (printother.service_cidr_cells, "Name|CIDRs|Age"),
    ("policy", "poddisruptionbudgets"): (
        printworkload.disruption_budget_cells,
        "Name|Min Available|Max Unavailable|Allowed Disruptions:i|Age",
    ),
    ("rbac.authorization.k8s.io", "clusterrolebindings"): (
        printother.role_binding_cells,
        "Name|Role|Age|Users*|Groups*|ServiceAccounts*",
    ),
    ("rbac.authorization.k8s.io", "rolebindings"): (
        printother.role_binding_cells,
        "Name|Role|Age|Users*|Groups*|ServiceAccounts*",
    ),
    ("storage.k8s.io", "csidrivers"): (
        printother.csi_driver_cells,
        "Name|AttachRequired:b|PodInfoOnMount:b|StorageCapacity:b|TokenRequests|RequiresRepublish:b|Modes|Age",
    ),
    ("storage.k8s.io", "csinodes"): (printother.csi_node_cells, "Name|Drivers:i|Age"),
    ("storage.k8s.io", "storageclasses"): (
        printother.storage_class_cells,
        "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age",
    ),
    ("storage.k8s.io", "volumeattachments"): (
        printother.attachment_cells,
        "Name|Attacher|PV|Node|Attached:b|Age",
    ),
    ("storage.k8s.io", "volumeattributesclasses"): (
        printother.attributes_class_cells,
        "Name|DriverName|Age",
    ),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"): (
        printother.mutating_policy_cells,
        "Name|Mutations:i|ParamKind|Age",
    ),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"): (
        printother.policy_binding_cells,
        "Name|PolicyName|ParamRef|Age",
    ),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"): (
        printother.webhook_cells,
        "Name|Webhooks:i|Age",
    ),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): (
        printother.validating_policy_cells,
        "Name|Validations:i|ParamKind|Age",
    ),
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): (
        printother.policy_binding_cells,
        "Name|PolicyName|ParamRef|Age",
    ),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): (
        printother.webhook_cells,
        "Name|Webhooks:i|Age",
    ),
    ("scheduling.k8s.io", "priorityclasses"): (
        printother.priority_class_cells,
        "Name|Value:i|Global-Default:b|Age|PreemptionPolicy",
    ),
    ("coordination.k8s.io", "leases"): (printother.lease_cells, "Name|Holder|Age"),
    ("node.k8s.io", "runtimeclasses"): (printother.runtime_class_cells, "Name|Handler|Age"),
    ("discovery.k8s.io", "endpointslices"): (
        printcore.endpoint_slice_cells,
        "Name|AddressType|Ports|Endpoints|Age",
    ),
    ("resource.k8s.io", "deviceclasses"): (printother.name_age_cells, "Name|Age"),
    ("resource.k8s.io", "resourceclaims"): (printother.resource_claim_cells, "Name|State|Age"),
    ("resource.k8s.io", "resourceclaimtemplates"): (printother.name_age_cells, "Name|Age"),
    ("resource.k8s.io", "resourceslices"): (
        printother.resource_slice_cells,
        "Name|Node|Driver|Pool|Age",
    ),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): (
        printother.flow_schema_cells,
        "Name|PriorityLevel|MatchingPrecedence|DistinguisherMethod|Age|MissingPL",
    ),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): (
        printother.priority_level_cells,
        "Name|Type|NominalConcurrencyShares|Queues|HandSize|QueueLengthLimit|Age",
    ),
}
#: kinds without a printer of their own: roles, CRDs, CSIStorageCapacity
_PLAIN: Final[tuple[Cells, str]] = (printother.name_created_cells, "Name|Created At:d")
_SAME: Final = {"events.k8s.io": ""}


def _table(group: str, resource: str) -> tuple[Cells, str]:
    return _TABLES.get((_SAME.get(group, group), resource), _PLAIN)


def columns(group: str, resource: str) -> list[Json]:
    """The column definitions of a resource's table."""
    return [_column(text, resource) for text in _table(group, resource)[1].split("|")]


def _column(text: str, resource: str) -> Json:
    wide = text.endswith("*")
    name, _, kind = text.removesuffix("*").partition(":")
    is_name = name == "Name" or (name == "Attacher" and resource == "volumeattachments")
    return {
        "name": name,
        "type": _TYPES.get(kind, "string"),
        "format": "name" if is_name else "",
        "description": _NAME_DESCRIPTION if name == "Name" else "",
        "priority": int(wide),
    }


_MOVING: Final = frozenset({("", "events"), ("batch", "jobs"), ("batch", "cronjobs")})
"""Kinds that show other times than their age."""


def age_column(group: str, resource: str) -> int | None:
    """Which cell is the age, if time changes no other; `is_moving` tells the exceptions among pods."""
    names = [text.rstrip("*") for text in _table(group, resource)[1].split("|")]
    if (_SAME.get(group, group), resource) in _MOVING or "Age" not in names:
        return None
    return names.index("Age")


def is_moving(group: str, resource: str, found: list[Any]) -> bool:
    """Whether a row shows how long ago something was, besides the age."""
    return not group and resource == "pods" and found[_RESTARTS].endswith(" ago)")


_RESTARTS: Final = 3


def decoder(group: str, resource: str) -> Callable[[bytes], Json]:
    """Pods are many and long, and their cells need little of them."""
    return _decode_pod if (group, resource) == ("", "pods") else decode_whole


decode_whole: Final[Callable[[bytes], Json]] = msgspec.json.Decoder().decode
_decode_pod: Final[Callable[[bytes], Any]] = msgspec.json.Decoder(printpod.PrintedPod).decode


def cells(group: str, resource: str, obj: Json, now: datetime) -> list[Any]:
    """The cells of one object's row; `now` is timezone-aware."""
    return _table(group, resource)[0](obj, now)


def row_conditions(group: str, resource: str, obj: Json) -> list[Json]:
    """`conditions` of the row: a finished pod is marked Completed."""
    if resource != "pods" or group:
        return []
    phase = (obj.get("status") or {}).get("phase")
    if phase == "Succeeded":
        text = "The pod has completed successfully."
    elif phase == "Failed":
        text = "The pod failed."
    else:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": text}]
