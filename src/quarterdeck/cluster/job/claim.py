"""Which pods belong to a Job: those it made, and those it can adopt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from quarterdeck.api import ObjectMeta, Selector, set_controller_reference, to_dict
from quarterdeck.api.finalizer import add_finalizer, remove_finalizer
from quarterdeck.api.k8s import Job, Pod
from quarterdeck.api.owner import remove_owner_reference
from quarterdeck.client import MergePatch, metadata_of
from quarterdeck.cluster.job import names
from quarterdeck.cluster.job.backoff import NO_FAILURES
from quarterdeck.cluster.job.podstate import PodState
from quarterdeck.cluster.podset.claim import uncontrolled
from quarterdeck.errors import ignore_not_found
from quarterdeck.runtime.cache import Cache, Entry, IndexQuery, controlled_by
from quarterdeck.runtime.reconcile.context import Context


def selector_of(job: Job) -> Selector | None:
    """Which pods a Job may have; none without a selector."""
    return Selector.of(job.spec.selector) if job.spec.selector else None


_DOUBT_AFTER: Final = 5.0
"""Seconds after which the server is asked about what was done to a pod and is not seen."""


class PodRecords:
    """The pods of one Job; what was read of a pod is kept until it changes.

    The records also say what was done about pods until that is seen: a cache may be far behind, and no pod
    must be made or counted twice for that.
    """

    def __init__(self, job_uid: str) -> None:
        self.job_uid: Final = job_uid
        self.failures = NO_FAILURES
        self._known: dict[str, PodState] = {}
        self._unseen: dict[str, tuple[str, float]] = {}
        self._freed: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._known)

    @property
    def is_behind(self) -> bool:
        """Whether pods that were made have yet to be seen."""
        return bool(self._unseen)

    def made(self, pod: Pod, now: float) -> None:
        """A pod was made."""
        self._unseen[pod.metadata.uid] = (pod.metadata.name, now)

    @property
    def is_in_doubt(self) -> bool:
        """Whether anything that was done has yet to be seen."""
        return self.is_behind or bool(self._freed)

    def freed(self, uids: Iterable[str], now: float) -> None:
        """Pods were counted, and their finalizer is gone."""
        self._freed.update(dict.fromkeys(uids, now))

    async def _look_for_unseen(self, ctx: Context[Job], now: float) -> None:
        """Forget what was seen, and what never will be: a pod went before anybody saw it, or the server went
        back to a backup."""
        known = self._known
        self._unseen = {uid: made for uid, made in self._unseen.items() if uid not in known}
        self._freed = {
            uid: when for uid, when in self._freed.items() if uid in known and known[uid].has_finalizer
        }
        for uid, (name, made) in list(self._unseen.items()):
            if now - made >= _DOUBT_AFTER and await self._live(ctx, uid, name) is None:
                del self._unseen[uid]
        for uid, when in list(self._freed.items()):
            if now - when < _DOUBT_AFTER:
                continue
            live = await self._live(ctx, uid, known[uid].name)
            if live is not None and names.TRACKING in live.finalizers:
                del self._freed[uid]
                known[uid].is_tracked = True

    @staticmethod
    async def _live(ctx: Context[Job], uid: str, name: str) -> ObjectMeta | None:
        """The metadata that a pod has on the server; none if it is gone."""
        with ignore_not_found():
            found = (await ctx.get(metadata_of(Pod), name, ctx.key.namespace, live=True)).metadata
            return found if found.uid == uid else None
        return None

    async def claim(self, ctx: Context[Job], now: float) -> list[PodState] | None:
        """The pods of the Job; orphans that match are adopted, those that match no longer are let go.

        ``None`` means that pods were adopted: nobody knows what to do before they are seen.
        """
        job = ctx.obj
        selector = selector_of(job)
        if selector is None:
            return []
        mine: list[Entry] = []
        strangers: list[Entry] = []
        for entry in _entries(ctx.cache, controlled_by(job)):
            (mine if selector.matches(entry.labels) else strangers).append(entry)
        if not job.metadata.is_deleting:
            for entry in strangers:
                await _release(ctx, entry)
            orphans = _entries(ctx.cache, uncontrolled("yes", job.metadata.namespace))
            fitting = [each for each in orphans if not each.is_deleting and selector.matches(each.labels)]
            if fitting and await _may_adopt(ctx):
                for entry in fitting:
                    await _adopt(ctx, entry)
                return None
        self._known = {entry.uid: self._read(entry) for entry in mine}
        await self._look_for_unseen(ctx, now)
        return list(self._known.values())

    def _read(self, entry: Entry) -> PodState:
        known = self._known.get(entry.uid)
        if known is None or known.entry is not entry:
            known = PodState(entry)
        known.is_tracked = known.has_finalizer and entry.uid not in self._freed
        return known


def _entries(cache: Cache, query: IndexQuery[Any]) -> Iterable[Entry]:
    table = cache.informer(Pod).table(query.index)
    assert table is not None
    return table.get(query.value, query.namespace)


async def _may_adopt(ctx: Context[Job]) -> bool:
    """The cache may be behind: a Job that is being deleted must not adopt what it would take along."""
    with ignore_not_found():
        live = await ctx.get(Job, ctx.key.name, ctx.key.namespace, live=True)
        return live.metadata.uid == ctx.obj.metadata.uid and not live.metadata.is_deleting
    return False


async def _adopt(ctx: Context[Job], entry: Entry) -> None:
    pod = Pod.from_bytes(entry.raw)
    await _change(ctx, pod, add_finalizer(set_controller_reference(ctx.obj, pod.metadata), names.TRACKING))


async def _release(ctx: Context[Job], entry: Entry) -> None:
    pod = Pod.from_bytes(entry.raw)
    await _change(ctx, pod, remove_finalizer(remove_owner_reference(ctx.obj, pod.metadata), names.TRACKING))


async def _change(ctx: Context[Job], pod: Pod, wanted: ObjectMeta) -> None:
    """Change whose pod it is, as of the version that was looked at."""
    metadata: dict[str, Any] = {
        "uid": pod.metadata.uid,
        "resourceVersion": pod.metadata.resource_version,
        "finalizers": list(wanted.finalizers),
        "ownerReferences": to_dict(wanted.owner_references),
    }
    with ignore_not_found():
        await ctx.patch(pod, MergePatch({"metadata": metadata}))
