"""Writing the pods of a StatefulSet and their claims, with the events that tell about it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from quarterdeck.api import OwnerReference
from quarterdeck.api.k8s import PersistentVolumeClaim, Pod, StatefulSet
from quarterdeck.cluster.statefulset.identity import (
    claims_of,
    has_identity,
    has_storage,
    ordinal_of,
    with_identity,
    with_storage,
)
from quarterdeck.cluster.statefulset.retention import (
    has_foreign_controller,
    has_stale_owner,
    is_deleted_when_scaled,
    wanted_owners,
)
from quarterdeck.errors import AlreadyExists, ForeignObject, NotFound, QuarterdeckError, ReconcileError
from quarterdeck.runtime.reconcile.context import Context


class PodControl:
    """Writes for one StatefulSet, in one run."""

    def __init__(self, ctx: Context[StatefulSet], wanted: range) -> None:
        """``wanted`` are the numbers for which there should be pods."""
        self._ctx: Final = ctx
        self._wanted: Final = wanted

    async def create(self, pod: Pod) -> None:
        """Make a pod, its claims first."""
        try:
            await self.create_claims(pod)
        except QuarterdeckError as error:
            self._tell("Create", pod, error)
            raise
        failure: QuarterdeckError | None = None
        try:
            await self._ctx.create(pod)
        except (AlreadyExists, ForeignObject):
            raise
        except QuarterdeckError as error:
            failure = error
        await self._own_claims_or_tell(pod)
        self._tell("Create", pod, failure)
        if failure is not None:
            raise failure

    async def repair(self, pod: Pod) -> None:
        """Give a pod back what makes it a member of the set."""
        stateful_set, ordinal = self._ctx.obj, ordinal_of(pod)
        wanted = pod
        if not has_identity(stateful_set, pod):
            wanted = with_identity(stateful_set, wanted, ordinal)
        if not has_storage(stateful_set, pod):
            wanted = with_storage(stateful_set, wanted, ordinal)
            try:
                await self.create_claims(pod)
            except QuarterdeckError as error:
                self._tell("Update", pod, error)
                raise
        has_changed = await self._own_claims_or_tell(pod)
        if wanted is pod and not has_changed:
            return
        try:
            await self._ctx.update(wanted)
        except QuarterdeckError as error:
            self._tell("Update", pod, error)
            raise
        self._tell("Update", pod, None)

    async def delete(self, pod: Pod) -> None:
        """Delete a pod."""
        try:
            await self._ctx.delete(pod)
        except NotFound:
            pass
        except QuarterdeckError as error:
            self._tell("Delete", pod, error)
            raise
        self._tell("Delete", pod, None)

    async def _claim(self, name: str) -> PersistentVolumeClaim | None:
        try:
            return await self._ctx.get(PersistentVolumeClaim, name, self._ctx.key.namespace)
        except NotFound:
            return None

    async def is_stale(self, pod: Pod) -> bool:
        """Whether a claim is about to go with an earlier pod of the name: a new one would lose it."""
        if not is_deleted_when_scaled(self._ctx.obj):
            return False
        for wanted in claims_of(self._ctx.obj, ordinal_of(pod)).values():
            found = await self._claim(wanted.metadata.name)
            if found is not None and has_stale_owner(found, pod):
                return True
        return False

    async def create_missing_claims(self, pod: Pod) -> None:
        """Make claims that a pending pod waits for."""
        await self.create_claims(pod)
        await self._own_claims_or_tell(pod)

    async def create_claims(self, pod: Pod) -> None:
        """Make the claims of a pod that are not there; raises the first failure."""
        first: QuarterdeckError | None = None
        for wanted in claims_of(self._ctx.obj, ordinal_of(pod)).values():
            name = wanted.metadata.name
            found = await self._claim(name)
            if found is not None:
                if found.metadata.is_deleting:
                    first = first or ReconcileError(f"pvc {name} is being deleted")
                continue
            try:
                await self._ctx.create(wanted)
            except QuarterdeckError as error:
                first = first or ReconcileError(f"failed to create PVC {name}: {error}")
                if not isinstance(error, AlreadyExists):
                    self._tell_claim(pod, name, error)
            else:
                self._tell_claim(pod, name, None)
        if first is not None:
            raise first

    async def has_right_owners(self, pod: Pod) -> bool:
        """Whether the claims of a pod go when they should."""
        return not [each async for each in self._misowned(pod)]

    async def own_claims(self, pod: Pod) -> bool:
        """Make the claims of a pod go when they should; returns whether that took anything."""
        has_changed = False
        for name in [each.metadata.name for each in claims_of(self._ctx.obj, ordinal_of(pod)).values()]:
            found = await self._claim(name)
            if found is not None and has_foreign_controller(found, self._ctx.obj, pod):
                text = (
                    f"PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging "
                    "controller, the retention policy is ignored for this claim"
                )
                self._ctx.event("Warning", "ConflictingController", text)
        async for claim, owners in self._misowned(pod):
            try:
                await self._ctx.update(claim.evolve(metadata=claim.metadata.evolve(owner_references=owners)))
            except QuarterdeckError as error:
                text = f"could not update claim {claim.metadata.name} for delete policy ownerRefs: {error}"
                raise ReconcileError(text) from error
            has_changed = True
        return has_changed

    async def _own_claims_or_tell(self, pod: Pod) -> bool:
        try:
            return await self.own_claims(pod)
        except QuarterdeckError as error:
            self._tell("Update", pod, error)
            raise

    async def _misowned(
        self, pod: Pod
    ) -> AsyncIterator[tuple[PersistentVolumeClaim, tuple[OwnerReference, ...]]]:
        """Claims with wrong owners, and the right ones."""
        stateful_set = self._ctx.obj
        ordinal = ordinal_of(pod)
        for wanted in claims_of(stateful_set, ordinal).values():
            claim = await self._claim(wanted.metadata.name)
            if claim is None:
                continue
            owners = wanted_owners(claim, stateful_set, pod, is_surplus=ordinal not in self._wanted)
            if owners is not None:
                yield claim, owners

    def _tell(self, verb: str, pod: Pod, error: QuarterdeckError | None) -> None:
        what = f"{verb} Pod {pod.metadata.name} in StatefulSet {self._ctx.key.name}"
        if error is None:
            self._ctx.event("Normal", f"Successful{verb}", f"{what} successful")
        else:
            self._ctx.event("Warning", f"Failed{verb}", f"{what} failed error: {error}")

    def _tell_claim(self, pod: Pod, claim: str, error: QuarterdeckError | None) -> None:
        name, owner = pod.metadata.name, self._ctx.key.name
        if error is None:
            text = f"Create Claim {claim} Pod {name} in StatefulSet {owner} success"
            self._ctx.event("Normal", "SuccessfulCreate", text)
        else:
            text = f"Create Claim {claim} for Pod {name} in StatefulSet {owner} failed error: {error}"
            self._ctx.event("Warning", "FailedCreate", text)
