"""Where each built-in type lives in ``quarterdeck.api.k8s``, and what its facts do not say.

Everything a bump of Kubernetes may need a decision about is in this table: a new type that a listed one
uses comes along by itself, into the module of the first root that leads to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Module:
    """A generated module: the types its roots lead to, unless an earlier module has them."""

    name: str
    about: str
    package: str
    roots: tuple[str, ...]


CORE: Final = "io.k8s.api.core.v1"
META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
APIEXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"

MODULES: Final = (
    Module(
        "reference",
        "References between core objects: by name, by key, by field.",
        CORE,
        (
            "LocalObjectReference",
            "ObjectReference",
            "SecretReference",
            "TypedLocalObjectReference",
            "TypedObjectReference",
            "ConfigMapKeySelector",
            "SecretKeySelector",
            "FileKeySelector",
            "ObjectFieldSelector",
            "ResourceFieldSelector",
        ),
    ),
    Module(
        "placement",
        "Where pods may run: node selectors, affinity, taints, tolerations, spreading.",
        CORE,
        (
            "NodeSelector",
            "Affinity",
            "Toleration",
            "Taint",
            "TopologySpreadConstraint",
            "TopologySelectorTerm",
        ),
    ),
    Module(
        "volume",
        "Volumes: every source a pod can mount, persistent volumes and claims.",
        CORE,
        ("Volume", "PersistentVolume", "PersistentVolumeClaim"),
    ),
    Module(
        "pod",
        "Pods: containers, probes, security, status, and the template other kinds embed.",
        CORE,
        ("Container", "EphemeralContainer", "Pod", "PodTemplate", "Binding"),
    ),
    Module("node", "Nodes.", CORE, ("Node",)),
    Module("service", "Services and the legacy Endpoints.", CORE, ("Service", "Endpoints")),
    Module(
        "core",
        "The other kinds of the core group: namespaces, configuration, accounts, quotas, legacy events.",
        CORE,
        (
            "Namespace",
            "ConfigMap",
            "Secret",
            "ServiceAccount",
            "ResourceQuota",
            "LimitRange",
            "ReplicationController",
            "Event",
        ),
    ),
    Module(
        "apps",
        "Workloads: Deployment, ReplicaSet, StatefulSet, DaemonSet.",
        "io.k8s.api.apps.v1",
        ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ControllerRevision"),
    ),
    Module("batch", "Jobs and cron jobs.", "io.k8s.api.batch.v1", ("Job", "CronJob")),
    Module(
        "rbac",
        "Roles and bindings.",
        "io.k8s.api.rbac.v1",
        ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"),
    ),
    Module(
        "coordination",
        "Leases: leader election and node heartbeats.",
        "io.k8s.api.coordination.v1",
        ("Lease",),
    ),
    Module("events", "Events of the new API (events.k8s.io).", "io.k8s.api.events.v1", ("Event",)),
    Module("discovery", "Endpoint slices.", "io.k8s.api.discovery.v1", ("EndpointSlice",)),
    Module(
        "policy",
        "Disruption budgets and evictions.",
        "io.k8s.api.policy.v1",
        ("PodDisruptionBudget", "Eviction"),
    ),
    Module(
        "autoscaling",
        "Horizontal pod autoscaling (autoscaling/v2).",
        "io.k8s.api.autoscaling.v2",
        ("HorizontalPodAutoscaler",),
    ),
    Module("scale", "The scale subresource (autoscaling/v1).", "io.k8s.api.autoscaling.v1", ("Scale",)),
    Module("scheduling", "Priority classes.", "io.k8s.api.scheduling.v1", ("PriorityClass",)),
    Module(
        "storage",
        "Storage classes and CSI objects.",
        "io.k8s.api.storage.v1",
        ("StorageClass", "CSINode", "CSIDriver", "VolumeAttachment", "CSIStorageCapacity"),
    ),
    Module(
        "resource",
        "Dynamic resource allocation.",
        "io.k8s.api.resource.v1",
        ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice"),
    ),
    Module(
        "networking",
        "Network policies and ingresses.",
        "io.k8s.api.networking.v1",
        ("NetworkPolicy", "Ingress", "IngressClass"),
    ),
    Module(
        "authentication",
        "Who is asking: token reviews and requests.",
        "io.k8s.api.authentication.v1",
        ("TokenReview", "TokenRequest", "SelfSubjectReview"),
    ),
    Module(
        "authorization",
        "Who may do what: access reviews.",
        "io.k8s.api.authorization.v1",
        (
            "SubjectAccessReview",
            "SelfSubjectAccessReview",
            "LocalSubjectAccessReview",
            "SelfSubjectRulesReview",
        ),
    ),
    Module(
        "certificates",
        "Certificate signing requests.",
        "io.k8s.api.certificates.v1",
        ("CertificateSigningRequest",),
    ),
    Module(
        "admissionregistration",
        "Webhook configurations and admission policies.",
        "io.k8s.api.admissionregistration.v1",
        (
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
        ),
    ),
    Module("apiextensions", "Custom resource definitions.", APIEXTENSIONS, ("CustomResourceDefinition",)),
)

HAND_WRITTEN: Final = frozenset(["admission"])
"""Modules of the package that are not generated; their text says why."""

META_CLASSES: Final = frozenset(
    f"{META}.{name}"
    for name in ("Condition", "DeleteOptions", "LabelSelector", "LabelSelectorRequirement", "ObjectMeta")
)
"""Types of the meta package that ``quarterdeck.api.meta`` has, with rules of their own."""

FREE_FORM: Final = frozenset([f"{APIEXTENSIONS}.JSONSchemaProps"])
"""Read as plain JSON: the schema of a custom resource is data, and recursive."""

PLURALS: Final = {"Scale": "scales"}
"""For a kind that is served only below other resources, more than one."""

EXPORTS: Final = {
    "admission": (
        "AdmissionRequest",
        "AdmissionResponse",
        "AdmissionReview",
        "ConversionRequest",
        "ConversionResponse",
        "ConversionReview",
    ),
    "admissionregistration": (
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhook",
        "MutatingWebhookConfiguration",
        "RuleWithOperations",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhook",
        "ValidatingWebhookConfiguration",
        "WebhookClientConfig",
    ),
    "apiextensions": ("CustomResourceDefinition",),
    "apps": (
        "ControllerRevision",
        "DaemonSet",
        "Deployment",
        "DeploymentSpec",
        "ReplicaSet",
        "ReplicaSetSpec",
        "StatefulSet",
        "StatefulSetSpec",
    ),
    "authentication": ("SelfSubjectReview", "TokenRequest", "TokenReview", "UserInfo"),
    "authorization": (
        "LocalSubjectAccessReview",
        "SelfSubjectAccessReview",
        "SelfSubjectRulesReview",
        "SubjectAccessReview",
    ),
    "autoscaling": (
        "CrossVersionObjectReference",
        "HorizontalPodAutoscaler",
        "HorizontalPodAutoscalerSpec",
        "MetricSpec",
    ),
    "batch": ("CronJob", "Job", "JobCondition", "JobSpec", "JobStatus", "JobTemplateSpec"),
    "certificates": ("CertificateSigningRequest",),
    "coordination": ("Lease", "LeaseSpec"),
    "core": (
        "ConfigMap",
        "Event as CoreEvent",
        "LimitRange",
        "Namespace",
        "ReplicationController",
        "ResourceQuota",
        "Secret",
        "ServiceAccount",
    ),
    "discovery": ("Endpoint", "EndpointSlice"),
    "events": ("Event", "EventSeries"),
    "networking": ("Ingress", "IngressClass", "NetworkPolicy"),
    "node": ("Node", "NodeCondition", "NodeSpec", "NodeStatus"),
    "placement": (
        "Affinity",
        "NodeAffinity",
        "NodeSelector",
        "NodeSelectorRequirement",
        "NodeSelectorTerm",
        "PodAffinity",
        "PodAffinityTerm",
        "PodAntiAffinity",
        "PreferredSchedulingTerm",
        "Taint",
        "Toleration",
        "TopologySpreadConstraint",
        "WeightedPodAffinityTerm",
    ),
    "pod": (
        "Binding",
        "Container",
        "ContainerPort",
        "ContainerStatus",
        "EnvVar",
        "EnvVarSource",
        "Pod",
        "PodCondition",
        "PodSchedulingGate",
        "PodSpec",
        "PodStatus",
        "PodTemplate",
        "PodTemplateSpec",
        "Probe",
        "ResourceRequirements",
        "SecurityContext",
        "VolumeMount",
    ),
    "policy": ("Eviction", "PodDisruptionBudget"),
    "rbac": ("ClusterRole", "ClusterRoleBinding", "PolicyRule", "Role", "RoleBinding", "RoleRef", "Subject"),
    "reference": (
        "ConfigMapKeySelector",
        "LocalObjectReference",
        "ObjectFieldSelector",
        "ObjectReference",
        "SecretKeySelector",
    ),
    "resource": (
        "DeviceClass",
        "ResourceClaim",
        "ResourceClaimTemplate",
        "ResourceClaimTemplateSpec",
        "ResourceSlice",
    ),
    "scale": ("Scale as ScaleSubresource",),
    "scheduling": ("PriorityClass",),
    "service": ("Endpoints", "Service", "ServicePort", "ServiceSpec"),
    "storage": ("CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass", "VolumeAttachment"),
    "volume": (
        "ConfigMapVolumeSource",
        "EmptyDirVolumeSource",
        "KeyToPath",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "PersistentVolumeClaimSpec",
        "SecretVolumeSource",
        "Volume",
    ),
}
"""What can be imported from the package itself, by module; of two types of one name, one is renamed."""
