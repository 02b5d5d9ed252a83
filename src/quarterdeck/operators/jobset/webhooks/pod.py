"""Admission of a JobSet's pods: leaders get affinity, followers their leader's domain, or have to wait."""

from __future__ import annotations

from typing import Final

from quarterdeck.api import LabelSelector
from quarterdeck.api.k8s import Node, Pod
from quarterdeck.api.meta import LabelSelectorRequirement
from quarterdeck.client import Client
from quarterdeck.errors import Forbidden, NotFound
from quarterdeck.operators.jobset.logic.exclusive import (
    TRANSIENT,
    admission_problem,
    follower_of,
    is_leader,
    is_placed_exclusively,
    leader_among,
    leader_labels,
    with_leader_affinity,
    with_priority_label,
)
from quarterdeck.operators.jobset.types import names
from quarterdeck.runtime.webhook import AdmissionWebhook, Defaulter, Validator
from quarterdeck.runtime.webhook.admission import Admission

_OF_JOBSETS: Final = LabelSelector(
    match_expressions=(LabelSelectorRequirement(key=names.JOBSET_NAME, operator="Exists"),)
)


class _Placement:
    """Reads leaders and their nodes."""

    def __init__(self, client: Client) -> None:
        self._client: Final = client

    async def _leader(self, admission: Admission, follower: Pod) -> Pod | str:
        space = admission.namespace
        pods = await self._client.list(Pod, namespace=space, labels=dict(leader_labels(follower)))
        return leader_among(pods, follower)

    async def place(self, admission: Admission, pod: Pod) -> Pod:
        """A pod as it should be placed."""
        pod = with_priority_label(pod)
        if not is_placed_exclusively(pod):
            return pod
        if is_leader(pod):
            return with_leader_affinity(pod)
        leader = await self._leader(admission, pod)
        if isinstance(leader, str) or not leader.spec.node_name:
            return pod  # it is refused below
        try:
            node = await self._client.get(Node, leader.spec.node_name)
        except NotFound as error:
            raise Forbidden(str(error)) from error
        placed = follower_of(pod, node)
        if isinstance(placed, str):
            raise Forbidden(placed)
        return placed

    async def check(self, admission: Admission, pod: Pod) -> None:
        """Refuse a follower whose leader has no place yet."""
        if not is_placed_exclusively(pod) or is_leader(pod):
            return
        if problem := admission_problem(pod):
            raise Forbidden(problem)
        leader = await self._leader(admission, pod)
        if isinstance(leader, str):
            raise Forbidden(leader)
        if not leader.spec.node_name:
            raise Forbidden(f"leader pod not yet scheduled, not creating follower pod. {TRANSIENT}")


def pod_webhooks(client: Client) -> tuple[AdmissionWebhook, ...]:
    """What to serve; the server asks only about pods of JobSets."""
    placement = _Placement(client)
    return (
        Defaulter(
            Pod,
            placement.place,
            path="/mutate-jobset-pod",
            name="mpod.kb.io",
            operations=("CREATE",),
            object_selector=_OF_JOBSETS,
        ),
        Validator(
            Pod,
            create=placement.check,
            path="/validate-jobset-pod",
            name="vpod.kb.io",
            operations=("CREATE",),
            object_selector=_OF_JOBSETS,
        ),
    )
