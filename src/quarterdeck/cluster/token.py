"""Secrets of type ``kubernetes.io/service-account-token``: filled with a token, and gone with the account.

The token has no end of its own: the server accepts it for as long as the Secret holds it and the account it
names exists. Tokens never appear in logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from quarterdeck.api import Key, PartialObjectMetadata, Resource
from quarterdeck.api.k8s import Secret, ServiceAccount
from quarterdeck.client import metadata_of
from quarterdeck.cluster.names import FIELD_MANAGER
from quarterdeck.errors import NotFound, ignore_not_found
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.controller.predicate import Predicate
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "serviceaccount-token-controller"
SECRET_TYPE: Final = "kubernetes.io/service-account-token"
ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"
_CLAIM: Final = "kubernetes.io/serviceaccount/"

SignToken = Callable[[Mapping[str, Any]], str]
"""Makes a token of claims; the issuer is filled in by the signer."""


def claims_of(account: ServiceAccount, secret: Secret) -> dict[str, Any]:
    """What the token of a Secret says."""
    namespace, name = account.metadata.namespace, account.metadata.name
    return {
        "sub": f"system:serviceaccount:{namespace}:{name}",
        f"{_CLAIM}namespace": namespace,
        f"{_CLAIM}secret.name": secret.metadata.name,
        f"{_CLAIM}service-account.name": name,
        f"{_CLAIM}service-account.uid": account.metadata.uid,
    }


class _TokenReconciler(Reconciler[Resource]):
    def __init__(self, root_ca: bytes, sign: SignToken) -> None:
        self._root_ca: Final = root_ca
        self._sign: Final = sign

    async def reconcile(self, ctx: Context[Resource]) -> Result | None:
        """Fill one Secret, or remove it, or what is left of it."""
        namespace, name = ctx.key.namespace, ctx.key.name
        try:
            secret = await ctx.get(Secret, name, namespace, live=True)
        except NotFound:
            await self._drop_references(ctx)
            return None
        if secret.type != SECRET_TYPE:
            return None
        account = await self._account(ctx, secret)
        if account is None:
            ctx.log.info("service account does not exist, deleting its token")
            with ignore_not_found():
                await ctx.delete(secret)
            return None
        filled = self._filled(account, secret)
        if filled is not None:
            with ignore_not_found():
                await ctx.update(filled)
        return None

    async def _account(self, ctx: Context[Resource], secret: Secret) -> ServiceAccount | None:
        annotations = secret.metadata.annotations
        try:
            account = await ctx.get(
                ServiceAccount, annotations.get(ACCOUNT_NAME, ""), secret.metadata.namespace, live=True
            )
        except NotFound:
            return None
        wanted = annotations.get(ACCOUNT_UID)
        return account if wanted in (None, "", account.metadata.uid) else None

    def _filled(self, account: ServiceAccount, secret: Secret) -> Secret | None:
        """The Secret with what it lacks; None when it has everything."""
        missing: dict[str, bytes] = {}
        if self._root_ca and secret.data.get("ca.crt") != self._root_ca:
            missing["ca.crt"] = self._root_ca
        if not secret.data.get("namespace"):
            missing["namespace"] = secret.metadata.namespace.encode()
        if not secret.data.get("token"):
            missing["token"] = self._sign(claims_of(account, secret)).encode()
        if not missing:
            return None
        annotations = {
            **secret.metadata.annotations,
            ACCOUNT_NAME: account.metadata.name,
            ACCOUNT_UID: account.metadata.uid,
        }
        return secret.evolve(
            data={**secret.data, **missing}, metadata=secret.metadata.evolve(annotations=annotations)
        )

    async def _drop_references(self, ctx: Context[Resource]) -> None:
        """A token that is gone is no longer listed by its account."""
        found = await ctx.client.list(ServiceAccount, namespace=ctx.key.namespace)
        for account in found.items:
            kept = tuple(each for each in account.secrets if each.name != ctx.key.name)
            if len(kept) < len(account.secrets):
                with ignore_not_found():
                    await ctx.update(account.evolve(secrets=kept))


def _token_secret(_: MapContext, secret: PartialObjectMetadata) -> Iterable[Key]:
    return (secret.key,) if ACCOUNT_NAME in secret.metadata.annotations else ()


async def _tokens_of_account(ctx: MapContext, account: PartialObjectMetadata) -> Iterable[Key]:
    secrets = await ctx.cache.list(metadata_of(Secret), namespace=account.metadata.namespace)
    name = account.metadata.name
    return [each.key for each in secrets if each.metadata.annotations.get(ACCOUNT_NAME) == name]


_ACCOUNT_GONE: Final = Predicate("account_gone", create=lambda _: False, update=lambda _: False)


def token_controller(root_ca: bytes, sign: SignToken) -> Controller[Resource]:
    """The controller, for ``manager.add``; ``sign`` makes tokens that the API server accepts."""
    return (
        Builder[Resource](name=NAME)
        .watches(Secret, to=_token_secret, only_metadata=True)
        .watches(ServiceAccount, to=_tokens_of_account, predicates=[_ACCOUNT_GONE], only_metadata=True)
        .rbac(
            Rule(groups=("",), resources=("secrets",), verbs=("delete", "update")),
            Rule(groups=("",), resources=("serviceaccounts",), verbs=("update",)),
        )
        .options(field_manager=FIELD_MANAGER)
        .build(_TokenReconciler(root_ca, sign))
    )
