"""JobSets that are recreated because the API does not let them be changed."""

from __future__ import annotations

from quarterdeck.errors import ignore_not_found
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.trainer.types import TrainJob
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result, Wait, until_gone


async def recreate(ctx: Context[TrainJob], jobset: JobSet) -> Result:
    """Delete a JobSet with all that belongs to it; the reconcile after that makes it anew."""
    with ignore_not_found():
        await ctx.delete(jobset, propagation="Foreground")
    return Wait(until_gone(jobset, JobSet), reason="jobset-recreated")
