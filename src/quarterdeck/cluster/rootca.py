"""The ConfigMap ``kube-root-ca.crt`` in every namespace: how to verify the API server from inside.

Whoever changes or deletes it finds it restored a moment later.
"""

from __future__ import annotations

from typing import Final

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ConfigMap, Namespace
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.provision import IN_USE, create_in_namespace, is_active, named, namespace_of
from quarterdeck.errors import NotFound, ignore_not_found
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "root-ca-certificate-publisher-controller"
CONFIG_MAP: Final = "kube-root-ca.crt"
_KEY: Final = "ca.crt"
_ANNOTATION: Final = "kubernetes.io/description"
_DESCRIPTION: Final = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such "
    "as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions "
    "of Kubernetes clusters."
)


class _Publisher(Reconciler[Namespace]):
    def __init__(self, root_ca: bytes) -> None:
        self._data: Final = {_KEY: root_ca.decode()}

    async def reconcile(self, ctx: Context[Namespace]) -> Result | None:
        if not is_active(ctx.obj):
            return None
        namespace = ctx.key.name
        try:
            known = await ctx.get(ConfigMap, CONFIG_MAP, namespace, live=True)
        except NotFound:
            metadata = ObjectMeta(
                name=CONFIG_MAP, namespace=namespace, annotations={_ANNOTATION: _DESCRIPTION}
            )
            await create_in_namespace(ctx, ConfigMap(metadata=metadata, data=self._data))
            return None
        if dict(known.data) == self._data and known.metadata.annotations.get(_ANNOTATION):
            return None
        annotations = {**known.metadata.annotations, _ANNOTATION: _DESCRIPTION}
        with ignore_not_found():
            await ctx.update(
                known.evolve(data=self._data, metadata=known.metadata.evolve(annotations=annotations))
            )
        return None


def root_ca_controller(root_ca: bytes) -> Controller[Namespace]:
    """The controller, for ``manager.add``; ``root_ca`` is PEM."""
    return (
        Builder(name=NAME)
        .for_(Namespace, predicates=[IN_USE])
        .watches(ConfigMap, to=namespace_of, predicates=[named(CONFIG_MAP)], only_metadata=True)
        .rbac(Rule(groups=("",), resources=("configmaps",), verbs=("create", "update")))
        .options(field_manager=FIELD_MANAGER)
        .build(_Publisher(root_ca))
    )
