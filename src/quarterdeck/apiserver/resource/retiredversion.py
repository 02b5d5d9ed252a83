"""Versions of built-in kinds that are no longer served, but still known: they get other error texts."""

from __future__ import annotations

from typing import Final

_ADMISSION = "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding"
_MUTATION = "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding"
_RBAC = "Role RoleBinding ClusterRole ClusterRoleBinding"
_FLOW = "FlowSchema PriorityLevelConfiguration"
_DEVICES = "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice"
_REVIEWS = "SelfSubjectRulesReview SelfSubjectAccessReview SubjectAccessReview LocalSubjectAccessReview"

_KINDS: Final = {
    "admissionregistration.k8s.io/v1alpha1": f"{_ADMISSION} {_MUTATION}",
    "admissionregistration.k8s.io/v1beta1": (
        f"ValidatingWebhookConfiguration MutatingWebhookConfiguration {_ADMISSION} {_MUTATION}"
    ),
    "apiextensions.k8s.io/v1beta1": "CustomResourceDefinition",
    "apiregistration.k8s.io/v1beta1": "APIService",
    "apps/v1beta1": "Deployment Scale StatefulSet ControllerRevision",
    "apps/v1beta2": "Deployment Scale StatefulSet DaemonSet ReplicaSet ControllerRevision",
    "authentication.k8s.io/v1alpha1": "SelfSubjectReview",
    "authentication.k8s.io/v1beta1": "SelfSubjectReview TokenReview",
    "authorization.k8s.io/v1beta1": _REVIEWS,
    "batch/v1beta1": "CronJob",
    "certificates.k8s.io/v1beta1": "CertificateSigningRequest ClusterTrustBundle PodCertificateRequest",
    "coordination.k8s.io/v1beta1": "Lease LeaseCandidate",
    "discovery.k8s.io/v1beta1": "EndpointSlice",
    "events.k8s.io/v1beta1": "Event",
    "extensions/v1beta1": "Deployment Scale DaemonSet Ingress ReplicaSet NetworkPolicy",
    "flowcontrol.apiserver.k8s.io/v1beta1": _FLOW,
    "flowcontrol.apiserver.k8s.io/v1beta2": _FLOW,
    "flowcontrol.apiserver.k8s.io/v1beta3": _FLOW,
    "networking.k8s.io/v1beta1": "Ingress IngressClass IPAddress ServiceCIDR",
    "node.k8s.io/v1alpha1": "RuntimeClass",
    "node.k8s.io/v1beta1": "RuntimeClass",
    "policy/v1beta1": "PodDisruptionBudget Eviction",
    "rbac.authorization.k8s.io/v1alpha1": _RBAC,
    "rbac.authorization.k8s.io/v1beta1": _RBAC,
    "resource.k8s.io/v1beta1": _DEVICES,
    "resource.k8s.io/v1beta2": f"{_DEVICES} DeviceTaintRule",
    "scheduling.k8s.io/v1beta1": "PriorityClass",
    "storage.k8s.io/v1alpha1": "VolumeAttachment CSIStorageCapacity VolumeAttributesClass",
    "storage.k8s.io/v1beta1": (
        "StorageClass VolumeAttachment CSIDriver CSINode CSIStorageCapacity VolumeAttributesClass"
    ),
}


def is_retired(api_version: str, kind: str) -> bool:
    """Whether the kind can be decoded in a version that no path serves."""
    return kind in _KINDS.get(api_version, "").split()
