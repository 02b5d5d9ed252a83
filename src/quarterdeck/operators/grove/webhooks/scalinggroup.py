"""What to know about the size of PodCliqueScalingGroups: below its minimum a base gang is never complete."""

from __future__ import annotations

from typing import Final

import msgspec

from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodCliqueScalingGroup
from quarterdeck.runtime.webhook import AdmissionWebhook
from quarterdeck.runtime.webhook.admission import Admission
from quarterdeck.runtime.webhook.handler import AdmissionHandler
from quarterdeck.runtime.webhook.registration import WebhookRule

from .state import ClusterReader

_RESOURCES: Final = ("podcliquescalinggroups", "podcliquescalinggroups/scale")


class _ScaleSpec(msgspec.Struct, frozen=True):
    replicas: int = 0


class _Scale(msgspec.Struct, frozen=True):
    spec: _ScaleSpec = _ScaleSpec()


class GroupGuard:
    """Warns of sizes, written directly or through the scale subresource; none is refused."""

    def __init__(self, reader: ClusterReader) -> None:
        self._reader: Final = reader

    def webhooks(self) -> tuple[AdmissionWebhook, ...]:
        """What to serve."""
        rule = WebhookRule((names.GROUP,), (names.VERSION,), _RESOURCES, ("CREATE", "UPDATE"), "Namespaced")
        return (AdmissionHandler(names.GROUP_PATH, self.review, name=names.GROUP_WEBHOOK, rules=(rule,)),)

    async def review(self, admission: Admission) -> None:
        """Judge one request."""
        if admission.subresource == "scale":
            replicas = msgspec.json.decode(admission.raw_object, type=_Scale).spec.replicas
            group = await self._reader.scaling_group(admission.name, admission.namespace)
        else:
            group = admission.read(PodCliqueScalingGroup)
            replicas = group.spec.replicas
            if group.metadata.is_deleting:
                return
            if admission.operation == "UPDATE" and admission.read_old(type(group)).spec == group.spec:
                return
        if group is not None and replicas < group.spec.min_available:
            name = group.metadata.name or admission.name
            admission.warn(
                f"spec.replicas: {replicas} is less than minAvailable {group.spec.min_available}: "
                f"the base PodGang of PodCliqueScalingGroup {name} is incomplete until it is scaled up again"
            )
