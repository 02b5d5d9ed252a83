"""What else a set has: account, rights and token of its init containers, Services, autoscalers."""

from __future__ import annotations

from typing import Final

from quarterdeck.api import ObjectMeta, UnsetType, set_controller_reference
from quarterdeck.api.k8s import (
    CrossVersionObjectReference,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Secret,
    Service,
    ServiceAccount,
    ServiceSpec,
    Subject,
)
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import AutoScaling, PodCliqueSet

from . import naming
from .label import component_labels, managed_labels
from .membership import standalone_cliques

_RBAC: Final = "rbac.authorization.k8s.io"
_TOKEN_TYPE: Final = "kubernetes.io/service-account-token"
_ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"


def _metadata(
    pcs: PodCliqueSet,
    name: str,
    component: str,
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> ObjectMeta:
    metadata = ObjectMeta(
        name=name,
        namespace=pcs.metadata.namespace,
        labels={**component_labels(pcs.metadata.name, component, name), **(labels or {})},
        annotations=annotations or {},
    )
    return set_controller_reference(pcs, metadata)


def plan_account(pcs: PodCliqueSet) -> ServiceAccount:
    """The account of the init containers."""
    metadata = _metadata(pcs, pcs.metadata.name, names.ACCOUNT_COMPONENT)
    return ServiceAccount(metadata=metadata, automount_service_account_token=True)


def plan_role(pcs: PodCliqueSet) -> Role:
    """Its rights: to look at pods."""
    metadata = _metadata(pcs, naming.role(pcs.metadata.name), names.ROLE_COMPONENT)
    rule = PolicyRule(api_groups=("",), resources=("pods", "pods/status"), verbs=("get", "list", "watch"))
    return Role(metadata=metadata, rules=(rule,))


def plan_role_binding(pcs: PodCliqueSet) -> RoleBinding:
    """That it has them."""
    name, account = naming.role(pcs.metadata.name), pcs.metadata
    return RoleBinding(
        metadata=_metadata(pcs, name, names.ROLE_BINDING_COMPONENT),
        role_ref=RoleRef(api_group=_RBAC, kind="Role", name=name),
        subjects=(Subject(kind="ServiceAccount", name=account.name, namespace=account.namespace),),
    )


def plan_token_secret(pcs: PodCliqueSet) -> Secret:
    """Its token, to be filled in by the cluster."""
    annotations = {_ACCOUNT_NAME: pcs.metadata.name}
    name = naming.token_secret(pcs.metadata.name)
    metadata = _metadata(pcs, name, names.TOKEN_COMPONENT, annotations=annotations)
    return Secret(metadata=metadata, type=_TOKEN_TYPE)


def plan_services(pcs: PodCliqueSet) -> list[Service]:
    """One headless Service for each replica."""
    config = pcs.spec.template.headless_service_config
    publishes = config.publish_not_ready_addresses if config else True
    made: list[Service] = []
    for replica in range(pcs.spec.replicas):
        name, index = naming.base_gang(pcs.metadata.name, replica), {names.SET_INDEX: str(replica)}
        spec = ServiceSpec(
            cluster_ip="None",
            selector={**managed_labels(pcs.metadata.name), **index},
            publish_not_ready_addresses=True if isinstance(publishes, UnsetType) else publishes,
        )
        made.append(Service(metadata=_metadata(pcs, name, names.SERVICE_COMPONENT, labels=index), spec=spec))
    return made


def plan_autoscalers(pcs: PodCliqueSet) -> list[HorizontalPodAutoscaler]:
    """One autoscaler for each clique and group that wants one, in each replica."""
    template, made = pcs.spec.template, []
    for replica in range(pcs.spec.replicas):
        for clique in standalone_cliques(template):
            if not isinstance(clique.spec.auto_scaling_config, UnsetType):
                name = naming.standalone_clique(pcs.metadata.name, replica, clique.name)
                made.append(_autoscaler(pcs, "PodClique", name, clique.spec.auto_scaling_config))
        for group in template.pod_clique_scaling_groups:
            if not isinstance(group.scale_config, UnsetType):
                name = naming.scaling_group(pcs.metadata.name, replica, group.name)
                made.append(_autoscaler(pcs, "PodCliqueScalingGroup", name, group.scale_config))
    return made


def _autoscaler(pcs: PodCliqueSet, kind: str, name: str, config: AutoScaling) -> HorizontalPodAutoscaler:
    return HorizontalPodAutoscaler(
        metadata=_metadata(pcs, name, names.AUTOSCALER_COMPONENT),
        spec=HorizontalPodAutoscalerSpec(
            scale_target_ref=CrossVersionObjectReference(api_version=names.API_VERSION, kind=kind, name=name),
            min_replicas=config.min_replicas,
            max_replicas=config.max_replicas,
            metrics=config.metrics,
        ),
    )
