"""The controller that ``benchmarks.reconcile`` measures, as a process of its own and as an operator.

    python -m benchmarks.widgetoperator --kubeconfig FILE --objects N [--workers 10] [--apply]

Every Widget gets one ConfigMap of its own and one write of its status. When N Widgets have been seen with the
status they should have, it prints one line of JSON with what it did and waits to be ended, so that its
processor time can be read. ``tools/kube/peers/reconciler`` is the same on controller-runtime,
``benchmarks.widget_kopf`` on kopf.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from quarterdeck.api import UNSET, Maybe, Model, ObjectMeta, Resource, crd, set_controller_reference
from quarterdeck.api.draft import Draft
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.client import Config
from quarterdeck.runtime import Builder, Context, Controller, Manager, Reconciler, Result, create_or_patch
from quarterdeck.runtime.cache import KindOptions
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.operator import OperatorEnvironment, OperatorWebhooks

GROUP: Final = "bench.quarterdeck.dev"
WORKERS: Final = 10


class WidgetSpec(Model):
    """What is wanted."""

    size: int
    text: str = ""


class WidgetStatus(Model):
    """What is there."""

    child: str = ""
    size: int = 0
    observed_generation: int = 0


class Widget(Resource, group=GROUP, version="v1", status=True):
    """Wants one ConfigMap."""

    spec: WidgetSpec
    status: Maybe[WidgetStatus] = UNSET


class Summary(msgspec.Struct, frozen=True):
    """What it took until every Widget was settled."""

    reconciles: int
    errors: int = 0


class Widgets(Reconciler[Widget]):
    """Makes the child and the status; calls ``done`` once all ``objects`` have been seen settled."""

    def __init__(self, objects: int, done: Callable[[Summary], None], *, apply: bool = False) -> None:
        self._objects: Final = objects
        self._done: Final = done
        self._make: Final = _apply if apply else _create
        self._settled: set[str] = set()
        self._runs = 0

    async def reconcile(self, ctx: Context[Widget]) -> Result | None:
        """One run of one Widget."""
        self._runs += 1
        widget = ctx.obj
        await self._make(ctx, widget)
        name, status = widget.metadata.name, widget.status
        if status is not UNSET and status.child == name and status.size == widget.spec.size:
            self._settle(name)
            return None
        ctx.status.child = name
        ctx.status.size = widget.spec.size
        return None

    def _settle(self, name: str) -> None:
        before = len(self._settled)
        self._settled.add(name)
        if before < len(self._settled) == self._objects:
            self._done(Summary(self._runs))


async def _create(ctx: Context[Widget], widget: Widget) -> None:
    """With the requests of controller-runtime's ``CreateOrUpdate``: one POST, nothing when it is there."""

    def fill(child: Draft[ConfigMap]) -> None:
        child.data = _data(widget)
        child.metadata = set_controller_reference(widget, child.metadata.done())

    await create_or_patch(ctx, ConfigMap(metadata=_metadata(widget)), fill)


async def _apply(ctx: Context[Widget], widget: Widget) -> None:
    await ctx.apply(ConfigMap(metadata=_metadata(widget), data=_data(widget)), owner=widget)


def _metadata(widget: Widget) -> ObjectMeta:
    return ObjectMeta(name=widget.metadata.name, namespace=widget.metadata.namespace)


def _data(widget: Widget) -> dict[str, str]:
    return {"size": str(widget.spec.size), "text": widget.spec.text}


def widget_controller(widgets: Widgets, *, workers: int = WORKERS) -> Controller[Widget]:
    """The controller, for ``manager.add``."""
    return Builder(Widget).owns(ConfigMap).options(max_concurrent_reconciles=workers).build(widgets)


class WidgetOperator:
    """The same for ``quarterdeck up``; ``started`` is when it joined, seconds of wall and CPU time."""

    name: Final = "widget"

    def __init__(self, widgets: Widgets, *, workers: int = WORKERS) -> None:
        self._widgets: Final = widgets
        self._workers: Final = workers
        self.started = (0.0, 0.0)

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """One kind."""
        return [crd(Widget)]

    def cached_kinds(self) -> Mapping[type[Resource], KindOptions]:
        """Nothing special."""
        return {}

    def setup(self, manager: Manager, environment: OperatorEnvironment) -> OperatorWebhooks:
        """Add the controller."""
        self.started = (time.perf_counter(), time.process_time())
        manager.add(widget_controller(self._widgets, workers=self._workers))
        return OperatorWebhooks()


async def run(kubeconfig: Path, objects: int, *, workers: int, apply: bool) -> None:
    def done(summary: Summary) -> None:
        print(json.dumps(msgspec.structs.asdict(summary)), flush=True)

    async with Manager(Config.load(kubeconfig), metrics=RuntimeMetrics()) as manager:
        manager.add(widget_controller(Widgets(objects, done, apply=apply), workers=workers))
        await manager.run()


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.widgetoperator", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--objects", type=int, required=True)
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--apply", action="store_true", help="the child by server-side apply")
    options = parser.parse_args()
    uvloop.run(run(options.kubeconfig, options.objects, workers=options.workers, apply=options.apply))
    return 0


if __name__ == "__main__":
    sys.exit(main())
