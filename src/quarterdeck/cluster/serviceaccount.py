"""A ServiceAccount named ``default`` in every active namespace; made again when somebody deletes it."""

from __future__ import annotations

from typing import Final

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import Namespace, ServiceAccount
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.cluster.provision import IN_USE, create_in_namespace, is_active, named, namespace_of
from quarterdeck.errors import NotFound
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "serviceaccount-controller"
ACCOUNT: Final = "default"


async def _ensure_account(ctx: Context[Namespace]) -> Result | None:
    if not is_active(ctx.obj):
        return None
    try:
        await ctx.get(ServiceAccount, ACCOUNT, ctx.key.name, live=True)
    except NotFound:
        await create_in_namespace(
            ctx, ServiceAccount(metadata=ObjectMeta(name=ACCOUNT, namespace=ctx.key.name))
        )
    return None


def service_account_controller() -> Controller[Namespace]:
    """The controller, for ``manager.add``."""
    return (
        Builder(name=NAME)
        .for_(Namespace, predicates=[IN_USE])
        .watches(ServiceAccount, to=namespace_of, predicates=[named(ACCOUNT)], only_metadata=True)
        .rbac(Rule(groups=("",), resources=("serviceaccounts",), verbs=("create",)))
        .options(field_manager=FIELD_MANAGER)
        .build(_ensure_account)
    )
