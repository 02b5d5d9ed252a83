"""Says in the status of a ValidatingAdmissionPolicy that it was seen.

The original also checks the types of its expressions and writes warnings; here the server refuses expressions
that do not compile, and warnings are left empty.
"""

from __future__ import annotations

from typing import Final

from quarterdeck.api.k8s import ValidatingAdmissionPolicy
from quarterdeck.client import MergePatch
from quarterdeck.errors import ignore_not_found
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.predicate import generation_changed
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "validatingadmissionpolicy-status-controller"


async def _note(ctx: Context[ValidatingAdmissionPolicy]) -> Result | None:
    policy = ctx.obj
    generation = policy.metadata.generation
    observed = policy.status.observed_generation
    if isinstance(observed, int) and isinstance(generation, int) and generation <= observed:
        return None
    with ignore_not_found():
        status = {"observedGeneration": generation, "typeChecking": {}}
        await ctx.client.status.patch(policy, MergePatch({"status": status}))
    return None


def policy_status_controller() -> Controller[ValidatingAdmissionPolicy]:
    """The controller, for ``manager.add``."""
    return (
        Builder(name=NAME)
        .for_(ValidatingAdmissionPolicy, predicates=[generation_changed])
        .rbac(
            Rule(
                groups=("admissionregistration.k8s.io",),
                resources=("validatingadmissionpolicies/status",),
                verbs=("patch",),
            )
        )
        .options(field_manager=NAME)
        .build(_note)
    )
