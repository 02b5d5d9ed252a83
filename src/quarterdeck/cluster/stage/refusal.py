"""Says in an event which Stages are not carried out, and why."""

from __future__ import annotations

from typing import Final

from quarterdeck.api import Resource
from quarterdeck.cluster.stage.error import StageError
from quarterdeck.cluster.stage.rule import compiled, kind_of
from quarterdeck.cluster.stage.types import Stage
from quarterdeck.errors import NotFound
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.reconciler import Reconciler
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "simulated-stage-controller"


def _refusal(stage: Stage) -> str:
    document = stage.to_dict()
    _, kind = kind_of(document)
    if kind != "Pod":
        return f"stages of {kind or 'no kind'} are not carried out, only those of Pod"
    try:
        compiled(stage.to_bytes())
    except StageError as error:
        return str(error)
    return ""


class _RefusalReconciler(Reconciler[Resource]):
    def __init__(self, recorder: Recorder) -> None:
        self._recorder: Final = recorder

    async def reconcile(self, ctx: Context[Resource]) -> Result | None:
        try:
            stage = await ctx.get(Stage, ctx.key.name)
        except NotFound:
            return None
        refusal = _refusal(stage)
        if refusal:
            self._recorder.event(stage, "Warning", "NotCarriedOut", "Read", refusal)
        return None


def refusal_controller(recorder: Recorder) -> Controller[Resource]:
    """The controller, for ``manager.add``; it waits for the kind to be defined."""
    return Builder[Resource](name=NAME).watches(Stage, optional=True).build(_RefusalReconciler(recorder))
