"""Which admission plugins there are, in upstream's order, and which of them run.

Policies, webhooks and quotas are plugins of the chain itself; here they have only their names, so that they
can be switched off like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from quarterdeck.apiserver.admission.attributes import Decision
from quarterdeck.apiserver.auth.attributes import AccessAttributes
from quarterdeck.errors import QuarterdeckError

from .base import Plugin
from .certificate import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
    ClusterTrustBundleAttest,
)
from .ingress import DefaultIngressClass
from .limitranger import LimitRanger
from .namespace import NamespaceLifecycle
from .node import NodeDeclaredFeatureValidator, TaintNodesByCondition
from .noderestriction import NodeRestriction
from .pod import DefaultTolerationSeconds, PodResizeValidator, PodTopologyLabels, Priority, RuntimeClass
from .podsecurity import PodSecurity, PodSecurityConfiguration
from .serviceaccount import ServiceAccount
from .storage import DefaultStorageClass, PersistentVolumeClaimResize, StorageObjectInUseProtection

Authorize = Callable[[AccessAttributes], Decision]

MUTATING_POLICY: Final = "MutatingAdmissionPolicy"
MUTATING_WEBHOOK: Final = "MutatingAdmissionWebhook"
VALIDATING_POLICY: Final = "ValidatingAdmissionPolicy"
VALIDATING_WEBHOOK: Final = "ValidatingAdmissionWebhook"
RESOURCE_QUOTA: Final = "ResourceQuota"
NODE_RESTRICTION: Final = NodeRestriction.name
SERVICE_ACCOUNT: Final = ServiceAccount.name

_ALWAYS_ON: Final = NamespaceLifecycle.name
#: gates of their features are off in 1.36 unless somebody turns them on, and then they do nothing
_DORMANT: Final = ("JobValidation", "PodGroupProtection", "PodGroupWorkloadExists")
_OF_THE_CHAIN: Final = (
    MUTATING_POLICY,
    MUTATING_WEBHOOK,
    VALIDATING_POLICY,
    VALIDATING_WEBHOOK,
    RESOURCE_QUOTA,
)
#: upstream has them, off by default
_MISSING: Final = (
    "AlwaysAdmit",
    "AlwaysDeny",
    "AlwaysPullImages",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ExtendedResourceToleration",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "OwnerReferencesPermissionEnforcement",
    "PodNodeSelector",
    "PodTolerationRestriction",
)


def _in_order(
    authorize: Authorize, pod_security: PodSecurityConfiguration | None = None
) -> tuple[Plugin, ...]:
    """Upstream's order; refusals of several plugins are the first one's."""
    return (
        NamespaceLifecycle(),
        LimitRanger(),
        ServiceAccount(),
        NodeRestriction(authorize),
        TaintNodesByCondition(),
        PodSecurity(pod_security),
        Priority(),
        DefaultTolerationSeconds(),
        DefaultStorageClass(),
        StorageObjectInUseProtection(),
        PersistentVolumeClaimResize(),
        RuntimeClass(),
        CertificateApproval(authorize),
        CertificateSigning(authorize),
        ClusterTrustBundleAttest(authorize),
        CertificateSubjectRestriction(),
        DefaultIngressClass(),
        PodTopologyLabels(),
        NodeDeclaredFeatureValidator(),
        PodResizeValidator(),
    )


def _names() -> frozenset[str]:
    plugins = (each.name for each in _in_order(lambda _: Decision(False)))
    return frozenset((*plugins, *_OF_THE_CHAIN, *_DORMANT))


KNOWN: Final = _names()
#: on unless they are switched off, in kube-apiserver 1.36
DEFAULT: Final = KNOWN - {NODE_RESTRICTION}
#: as envtest runs kube-apiserver: no controller would make service accounts
FOR_TESTS: Final = DEFAULT - {SERVICE_ACCOUNT}
#: as kubeadm runs it
FOR_CLUSTERS: Final = KNOWN


class UnknownPlugin(QuarterdeckError, ValueError):
    """A name that is no admission plugin, or one that cannot be had or switched off."""


def choose(
    default: Collection[str], enable: Iterable[str] = (), disable: Iterable[str] = ()
) -> frozenset[str]:
    """The plugins that run: the default ones and `enable`, without `disable`; raises UnknownPlugin."""
    added, dropped = _checked(enable, "enable"), _checked(disable, "disable")
    if both := sorted(added & dropped):
        raise UnknownPlugin(
            f"{', '.join(both)} in enable-admission-plugins and disable-admission-plugins overlapped"
        )
    if _ALWAYS_ON in dropped:
        raise UnknownPlugin(
            f'disable-admission-plugins plugin "{_ALWAYS_ON}" is part of every create and stays on'
        )
    return (frozenset(default) | added) - dropped


def _checked(names: Iterable[str], option: str) -> frozenset[str]:
    given = frozenset(names)
    for name in sorted(given - KNOWN):
        if name in _MISSING:
            if option == "disable":
                continue  # it is off
            raise UnknownPlugin(
                f'{option}-admission-plugins plugin "{name}" is not part of Quarterdeck; '
                f"there are {', '.join(sorted(KNOWN))}"
            )
        raise UnknownPlugin(
            f'{option}-admission-plugins plugin "{name}" is unknown; there are {", ".join(sorted(KNOWN))}'
        )
    return given & KNOWN


def plugins(
    enabled: Collection[str], authorize: Authorize, pod_security: PodSecurityConfiguration | None = None
) -> tuple[Plugin, ...]:
    """Those of the enabled plugins that live here, in order."""
    return tuple(each for each in _in_order(authorize, pod_security) if each.name in enabled)
