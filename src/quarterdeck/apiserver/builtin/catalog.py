"""Which strategy serves which built-in resource."""

from __future__ import annotations

from typing import Final

from quarterdeck.apiserver.resource.strategy import Strategy

from .access import admissionpolicy, certificate, rbac, webhookconfig
from .access.certificateapproval import ApprovalRules
from .cluster import apiservice, event, flowcontrol, quota
from .cluster.lease import LeaseStrategy
from .cluster.namespace import NamespaceFinalizeStrategy, NamespaceStrategy
from .cluster.node import NodeStrategy
from .cluster.priorityclass import PriorityClassStrategy
from .cluster.runtimeclass import RuntimeClassStrategy
from .kind import BuiltinStrategy, PlainStrategy
from .network import address, endpoints, ingress, networkpolicy
from .network.service import ServiceStrategy
from .pod import subresource as podsubresource
from .pod.pod import PodStrategy
from .storage import device, persistentvolume
from .storage import storageclass as storage
from .storage.configmap import ConfigMapStrategy
from .storage.secret import SecretStrategy
from .workload import daemonset, deployment, job, replicationcontroller
from .workload.autoscaling import HorizontalPodAutoscalerStrategy
from .workload.cronjob import CronJobStrategy
from .workload.disruption import PodDisruptionBudgetStrategy
from .workload.statefulset import StatefulSetStrategy

_ADMISSION: Final = "admissionregistration.k8s.io"
_RBAC: Final = "rbac.authorization.k8s.io"
_NETWORKING: Final = "networking.k8s.io"
_STORAGE: Final = "storage.k8s.io"
_FLOW: Final = "flowcontrol.apiserver.k8s.io"
_DEVICES: Final = "resource.k8s.io"

_STRATEGIES: Final[dict[tuple[str, str], Strategy]] = {
    ("", "configmaps"): ConfigMapStrategy(),
    ("", "endpoints"): endpoints.EndpointsStrategy(),
    ("", "events"): event.EventStrategy(),
    ("", "limitranges"): quota.LimitRangeStrategy(),
    ("", "namespaces"): NamespaceStrategy(),
    ("", "namespaces/finalize"): NamespaceFinalizeStrategy(),
    ("", "nodes"): NodeStrategy(),
    ("", "persistentvolumeclaims"): persistentvolume.PersistentVolumeClaimStrategy(),
    ("", "persistentvolumes"): persistentvolume.PersistentVolumeStrategy(),
    ("", "pods"): PodStrategy(),
    ("", "pods/ephemeralcontainers"): podsubresource.PodEphemeralContainersStrategy(),
    ("", "pods/resize"): podsubresource.PodResizeStrategy(),
    ("", "podtemplates"): replicationcontroller.PodTemplateStrategy(),
    ("", "replicationcontrollers"): replicationcontroller.ReplicationControllerStrategy(),
    ("", "resourcequotas"): quota.ResourceQuotaStrategy(),
    ("", "secrets"): SecretStrategy(),
    ("", "serviceaccounts"): PlainStrategy(),
    ("", "services"): ServiceStrategy(),
    (_ADMISSION, "mutatingadmissionpolicies"): admissionpolicy.MutatingAdmissionPolicyStrategy(),
    (_ADMISSION, "mutatingadmissionpolicybindings"): admissionpolicy.MutatingAdmissionPolicyBindingStrategy(),
    (_ADMISSION, "mutatingwebhookconfigurations"): webhookconfig.MutatingWebhookConfigurationStrategy(),
    (_ADMISSION, "validatingadmissionpolicies"): admissionpolicy.ValidatingAdmissionPolicyStrategy(),
    (
        _ADMISSION,
        "validatingadmissionpolicybindings",
    ): admissionpolicy.ValidatingAdmissionPolicyBindingStrategy(),
    (_ADMISSION, "validatingwebhookconfigurations"): webhookconfig.ValidatingWebhookConfigurationStrategy(),
    ("apiregistration.k8s.io", "apiservices"): apiservice.APIServiceStrategy(),
    ("apps", "controllerrevisions"): daemonset.ControllerRevisionStrategy(),
    ("apps", "daemonsets"): daemonset.DaemonSetStrategy(),
    ("apps", "deployments"): deployment.DeploymentStrategy(),
    ("apps", "replicasets"): deployment.ReplicaSetStrategy(),
    ("apps", "statefulsets"): StatefulSetStrategy(),
    ("autoscaling", "horizontalpodautoscalers"): HorizontalPodAutoscalerStrategy(),
    ("batch", "cronjobs"): CronJobStrategy(),
    ("batch", "jobs"): job.JobStrategy(),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
    ): certificate.CertificateSigningRequestStrategy(),
    ("certificates.k8s.io", "certificatesigningrequests/approval"): ApprovalRules(),
    ("coordination.k8s.io", "leases"): LeaseStrategy(),
    ("discovery.k8s.io", "endpointslices"): endpoints.EndpointSliceStrategy(),
    ("events.k8s.io", "events"): event.EventsEventStrategy(),
    (_FLOW, "flowschemas"): flowcontrol.FlowSchemaStrategy(),
    (_FLOW, "prioritylevelconfigurations"): flowcontrol.PriorityLevelConfigurationStrategy(),
    (_NETWORKING, "ingressclasses"): ingress.IngressClassStrategy(),
    (_NETWORKING, "ingresses"): ingress.IngressStrategy(),
    (_NETWORKING, "ipaddresses"): address.IPAddressStrategy(),
    (_NETWORKING, "networkpolicies"): networkpolicy.NetworkPolicyStrategy(),
    (_NETWORKING, "servicecidrs"): address.ServiceCIDRStrategy(),
    ("node.k8s.io", "runtimeclasses"): RuntimeClassStrategy(),
    ("policy", "poddisruptionbudgets"): PodDisruptionBudgetStrategy(),
    (_RBAC, "clusterrolebindings"): rbac.ClusterRoleBindingStrategy(),
    (_RBAC, "clusterroles"): rbac.ClusterRoleStrategy(),
    (_RBAC, "rolebindings"): rbac.RoleBindingStrategy(),
    (_RBAC, "roles"): rbac.RoleStrategy(),
    (_DEVICES, "deviceclasses"): device.DeviceClassStrategy(),
    (_DEVICES, "resourceclaims"): device.ResourceClaimStrategy(),
    (_DEVICES, "resourceclaimtemplates"): device.ResourceClaimTemplateStrategy(),
    (_DEVICES, "resourceslices"): device.ResourceSliceStrategy(),
    ("scheduling.k8s.io", "priorityclasses"): PriorityClassStrategy(),
    (_STORAGE, "csidrivers"): storage.CSIDriverStrategy(),
    (_STORAGE, "csinodes"): storage.CSINodeStrategy(),
    (_STORAGE, "csistoragecapacities"): storage.CSIStorageCapacityStrategy(),
    (_STORAGE, "storageclasses"): storage.StorageClassStrategy(),
    (_STORAGE, "volumeattachments"): storage.VolumeAttachmentStrategy(),
    (_STORAGE, "volumeattributesclasses"): storage.VolumeAttributesClassStrategy(),
}
_PLAIN: Final = BuiltinStrategy()


def strategy_for(group: str, resource: str) -> Strategy:
    """The strategy of a built-in resource; a plain one for resources without rules of their own."""
    return _STRATEGIES.get((group, resource), _PLAIN)


def subresource_strategy(group: str, resource: str, subresource: str) -> Strategy | None:
    """The strategy that stands in for the kind's own; None where the kind's own is right (status)."""
    return _STRATEGIES.get((group, f"{resource}/{subresource}"))
