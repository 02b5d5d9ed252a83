"""What everybody may know about the operator: the SDK asks for the release before it does anything."""

from __future__ import annotations

from typing import Final

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.api.k8s.rbac import PolicyRule, Role, RoleBinding, RoleRef, Subject
from quarterdeck.client import Client
from quarterdeck.errors import QuarterdeckError
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.loop.backoff import EndlessBackoff
from quarterdeck.runtime.loop.clock import LoopClock
from quarterdeck.runtime.operator.install import create_namespace
from quarterdeck.runtime.rbac import Rule

from . import names

_RBAC: Final = "rbac.authorization.k8s.io"
RULES: Final = (
    Rule(groups=("",), resources=("namespaces",), verbs=("create",)),
    Rule(groups=("",), resources=("configmaps",), verbs=("create", "patch")),
    Rule(groups=(_RBAC,), resources=("roles", "rolebindings"), verbs=("create", "patch")),
)
_LONGEST_WAIT: Final = 300.0
_log: Final = get_logger(__name__)


class PublicConfig:
    """Tells the release, in a ConfigMap that every user may read."""

    name: Final = "trainer-public-config"
    needs_leader_election: Final = True

    def __init__(self, client: Client, namespace: str) -> None:
        self._client: Final = client
        self._namespace: Final = namespace

    async def run(self) -> None:
        """Write it once, however long that takes; TrainJobs run meanwhile."""
        clock = LoopClock()
        backoff = EndlessBackoff(base=1.0, cap=_LONGEST_WAIT, jitter=1.0, clock=clock)
        while True:
            try:
                return await self._publish()
            except QuarterdeckError as error:
                _log.warning("the release could not be published", error, namespace=self._namespace)
            await clock.sleep(backoff.next())

    async def _publish(self) -> None:
        await create_namespace(self._client, self._namespace)
        for obj in public_objects(self._namespace):
            await self._client.apply(obj, field_manager=names.FIELD_MANAGER, force=True)


def public_objects(namespace: str) -> tuple[ConfigMap | Role | RoleBinding, ...]:
    """The ConfigMap, and the right to read it."""
    metadata = ObjectMeta(name=names.PUBLIC_CONFIG, namespace=namespace)
    reading = PolicyRule(
        api_groups=("",),
        resources=("configmaps",),
        resource_names=(names.PUBLIC_CONFIG,),
        verbs=("get", "list", "watch"),
    )
    return (
        ConfigMap(metadata=metadata, data={"kubeflow_trainer_version": names.RELEASE}),
        Role(metadata=metadata, rules=(reading,)),
        RoleBinding(
            metadata=metadata,
            role_ref=RoleRef(api_group=_RBAC, kind="Role", name=names.PUBLIC_CONFIG),
            subjects=(Subject(api_group=_RBAC, kind="Group", name="system:authenticated"),),
        ),
    )


def public_references(namespace: str) -> tuple[tuple[str, str, str, str], ...]:
    """API version, kind, name and namespace of what is made; the namespace itself may be others' too."""
    kinds = (("v1", "ConfigMap"), (f"{_RBAC}/v1", "RoleBinding"), (f"{_RBAC}/v1", "Role"))
    return tuple((version, kind, names.PUBLIC_CONFIG, namespace) for version, kind in kinds)
