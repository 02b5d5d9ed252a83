"""Writing the status of claims."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any, Final

from quarterdeck.api import Time, to_dict
from quarterdeck.api.condition import Conditions
from quarterdeck.client import Backoff, MergePatch
from quarterdeck.errors import Conflict, NotFound, QuarterdeckError
from quarterdeck.operators.ipam import names
from quarterdeck.operators.ipam.logic.claim import Outcome
from quarterdeck.operators.ipam.types import SubnetClaim, SubnetPoolClaim
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Requeue
from quarterdeck.wire.patch import merge_patch

RETRY: Final = Backoff(steps=5, base=0.05, factor=1.5, jitter=0.1)


class ClaimGone(QuarterdeckError):
    """The server does not have the claim any more, whatever the cache shows."""


class ClaimStatusWriter:
    """Writes what became of a claim if that differs from what is written."""

    def __init__(self) -> None:
        self._random: Final = random.Random()  # noqa: S311  jitter, no secret

    async def write(self, ctx: Context[SubnetClaim], outcome: Outcome) -> bool:
        """Returns whether the outcome is news: another phase, CIDR or message.

        Raises ``ClaimGone``, or ``Requeue`` if another allocator has bound the claim to something else.
        """
        claim, delays = ctx.obj, RETRY.delays(self._random)
        while True:
            changes = status_changes(
                claim,
                {"phase": outcome.phase, "allocatedCIDR": outcome.cidr, "message": outcome.message},
                outcome.condition,
                generation=ctx.obj.metadata.generation,
                now=ctx.now(),
            )
            if not changes:
                return False
            is_news = bool(changes.keys() & {"phase", "allocatedCIDR", "message"})
            version = claim.metadata.resource_version
            patch: dict[str, Any] = {"metadata": {"resourceVersion": version}, "status": changes}
            try:
                await ctx.client.status.patch_raw(claim, MergePatch(patch))
            except Conflict:
                delay = next(delays, None)
                if delay is None:
                    raise
                await asyncio.sleep(delay)
                try:
                    claim = await ctx.client.get(SubnetClaim, ctx.key.name, ctx.key.namespace)
                except NotFound as error:
                    raise ClaimGone(f"{ctx.key} is gone") from error
                _check_same(ctx.obj, claim, outcome)
            except NotFound as error:
                raise ClaimGone(f"{ctx.key} is gone") from error
            else:
                return is_news


def _check_same(known: SubnetClaim, now: SubnetClaim, outcome: Outcome) -> None:
    bound = now.status.allocated_cidr if now.status.phase == names.BOUND else ""
    is_other = now.metadata.uid != known.metadata.uid or now.metadata.generation != known.metadata.generation
    if is_other or (bound and bound not in (known.status.allocated_cidr, outcome.cidr)):
        raise Requeue(after=0.05, reason="claim-changed")


def status_changes(
    claim: SubnetClaim | SubnetPoolClaim,
    said: Mapping[str, str],
    ready: tuple[bool, str, str],
    *,
    generation: int,
    now: Time,
) -> dict[str, Any]:
    """The merge patch of a claim's status; ``ready`` is status, reason and message of that condition.

    Of what is ``said``, what is empty is left out.
    """
    old: dict[str, Any] = to_dict(claim.status)
    conditions = Conditions(claim.status.conditions)
    status, reason, message = ready
    conditions.set(
        names.READY, status, reason=reason, message=message, now=now, observed_generation=generation
    )
    kept = {key: value for key, value in old.items() if key not in said}
    new = {key: text for key, text in said.items() if text}
    new_conditions = to_dict(conditions.frozen())
    return merge_patch(old, {**kept, **new, "observedGeneration": generation, "conditions": new_conditions})
