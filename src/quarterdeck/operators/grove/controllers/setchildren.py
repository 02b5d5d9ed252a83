"""The smaller children of a set: account, rights, token, Services, autoscalers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from quarterdeck.api import Resource, is_controlled_by
from quarterdeck.api.draft import Draft
from quarterdeck.api.k8s import HorizontalPodAutoscaler, Pod, Role, RoleBinding, Secret, Service
from quarterdeck.client import metadata_of
from quarterdeck.client.option import Labels
from quarterdeck.errors import AlreadyExists, NotFound, ignore_not_found
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic import childplan, naming
from quarterdeck.operators.grove.logic.kinship import missing_metadata
from quarterdeck.operators.grove.logic.label import managed_labels
from quarterdeck.operators.grove.types import PodCliqueSet
from quarterdeck.runtime.cache import controlled_by
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.ownership import require_ours
from quarterdeck.runtime.reconcile.upsert import create_or_patch

from .cliquewrite import put_back_owners
from .outcome import NotYet, put_back, slow_start, step
from .settled import SetPlan, SettledChildren

R = TypeVar("R", bound=Resource)


class SetChildren:
    """Makes them, and deletes those that are too many."""

    def __init__(self, settled: SettledChildren) -> None:
        self._settled: Final = settled
        self._filled: Final[dict[str, str]] = {}
        """UIDs of sets and of their Secrets whose tokens were seen: those are not read again."""

    def forget(self, uid: str) -> None:
        """A set is gone."""
        self._filled.pop(uid, None)

    async def sync(self, ctx: Context[PodCliqueSet], plan: SetPlan) -> None:
        """Bring all of them up to date; raises ``NotYet`` while the token is missing."""
        pcs = ctx.obj
        with step("ERR_SYNC_SERVICE_ACCOUNT", "failed to sync ServiceAccount"):
            await ctx.apply(childplan.plan_account(pcs))
        with step("ERR_SYNC_ROLE", "failed to sync Role"):
            await self._keep(ctx, childplan.plan_role(pcs))
        with step("ERR_SYNC_ROLE_BINDING", "failed to sync RoleBinding"):
            await self._keep(ctx, childplan.plan_role_binding(pcs))
        with step("ERR_SYNC_SERVICE", "failed to sync headless Services"):
            await self._apply_all(ctx, Service, plan.services)
        with step("ERR_SYNC_HPA", "failed to sync HorizontalPodAutoscalers"):
            await self._apply_all(ctx, HorizontalPodAutoscaler, plan.autoscalers)
        with step("ERR_SYNC_SECRET", "failed to sync the token Secret"):
            await self._sync_token(ctx)

    async def _keep(self, ctx: Context[PodCliqueSet], wanted: Role | RoleBinding) -> None:
        """Make it, or make it again what it was."""

        def change(draft: Draft[Any]) -> None:
            draft.metadata.labels = {**draft.metadata.labels, **wanted.metadata.labels}
            put_back_owners(draft, wanted)
            if isinstance(wanted, Role):
                draft.rules = list(wanted.rules)
            else:
                draft.subjects = list(wanted.subjects)

        await create_or_patch(ctx, wanted, change)

    async def _apply_all(self, ctx: Context[PodCliqueSet], kind: type[R], wanted: Sequence[R]) -> None:
        owner, present = ctx.obj.metadata.uid, ctx.index(kind, controlled_by(ctx.obj))

        async def apply(child: R) -> None:
            self._settled.settle(owner, await ctx.apply(child), child)

        await slow_start(self._settled.others(owner, wanted, present), apply)
        keep = {child.metadata.name for child in wanted}
        await ctx.prune(kind, labels=_of_set(ctx.obj), keep=keep)

    async def _sync_token(self, ctx: Context[PodCliqueSet]) -> None:
        pcs, wanted = ctx.obj, childplan.plan_token_secret(ctx.obj)
        if await self._is_filled(ctx, wanted):
            return
        # Read from the server: only metadata of Secrets is cached.
        try:
            secret = await ctx.get(Secret, wanted.metadata.name, wanted.metadata.namespace, live=True)
        except NotFound:
            try:
                secret = await ctx.create(wanted)
            except AlreadyExists:
                secret = await ctx.get(Secret, wanted.metadata.name, wanted.metadata.namespace, live=True)
        key = f"{secret.metadata.namespace}/{secret.metadata.name}"
        if secret.metadata.is_deleting:
            raise NotYet(f"Secret {key} is about to go")
        with step("ERR_SECRET_CONFLICT", "the Secret exists and is not ours"):
            require_ours(wanted, secret, manager=names.FIELD_MANAGER)
        if missing_metadata(secret.metadata, wanted.metadata):
            await put_back(ctx, wanted)
        if not secret.data.get("token"):
            raise NotYet(f"Secret {key} is waiting for service account token")
        if await self._drop_legacy(ctx):
            self._filled[pcs.metadata.uid] = secret.metadata.uid

    async def _is_filled(self, ctx: Context[PodCliqueSet], wanted: Secret) -> bool:
        known = self._filled.get(ctx.obj.metadata.uid)
        if known is None:
            return False
        try:
            found = await ctx.get(metadata_of(Secret), wanted.metadata.name, ctx.key.namespace)
        except NotFound:
            return False
        is_whole = not missing_metadata(found.metadata, wanted.metadata)
        return found.metadata.uid == known and is_whole and not found.metadata.is_deleting

    async def _drop_legacy(self, ctx: Context[PodCliqueSet]) -> bool:
        """Delete the token of older versions, once no pod mounts it any more; false while one does."""
        pcs = ctx.obj
        name = naming.legacy_token_secret(pcs.metadata.name)
        try:
            old = await ctx.get(Secret, name, pcs.metadata.namespace, live=True)
        except NotFound:
            return True
        if not is_controlled_by(pcs, old.metadata):
            return True
        pods = await ctx.list(Pod, namespace=pcs.metadata.namespace, labels=_of_set(pcs))
        is_used = any(
            volume.secret and volume.secret.secret_name == name for pod in pods for volume in pod.spec.volumes
        )
        if is_used:
            return False
        with ignore_not_found():
            await ctx.delete(old)
        return True


def _of_set(pcs: PodCliqueSet) -> Labels:
    return managed_labels(pcs.metadata.name)
