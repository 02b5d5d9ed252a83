"""What authors of controllers get wrong, and mypy must find: never run, only checked.

``warn_unused_ignores`` turns each line into a test: if mypy stopped finding the mistake, its ignore would be
unused and ``make check`` would fail.
"""

from collections.abc import Iterable
from typing import Final

from quarterdeck.api import Key, Model, Resource, omitempty
from quarterdeck.api.k8s import ConfigMap, Pod
from quarterdeck.runtime import Builder, Context, Index, MapContext
from quarterdeck.runtime.cache import Cache


class WidgetSpec(Model):
    size: int = omitempty(0)


class WidgetStatus(Model):
    ready: int = omitempty(0)


class Widget(Resource, group="example.io", version="v1", status=True):
    spec: WidgetSpec = WidgetSpec()
    status: WidgetStatus = WidgetStatus()


PODS_BY_NODE: Final[Index[Pod]] = Index("node", lambda pod: [pod.spec.node_name])


def widgets_of_pod(ctx: MapContext, pod: Pod) -> Iterable[Key]:
    return [Key(pod.metadata.namespace, pod.metadata.name)]


def a_field_of_the_status(ctx: Context[Widget]) -> None:
    ctx.status.ready = 1
    ctx.status.redy = 1  # type: ignore[attr-defined]


def a_field_of_a_changed_copy(widget: Widget) -> Widget:
    right = widget.evolve(spec=widget.spec.evolve(size=2))
    return right.evolve(spek=widget.spec)  # type: ignore[call-arg]


async def an_index_of_another_kind(ctx: Context[Widget], cache: Cache) -> None:
    ctx.index(Pod, PODS_BY_NODE("n1"))
    await cache.list(Pod, index=PODS_BY_NODE("n1"))
    ctx.index(ConfigMap, PODS_BY_NODE("n1"))  # type: ignore[misc]
    await cache.list(ConfigMap, index=PODS_BY_NODE("n1"))  # type: ignore[misc]
    Builder(Widget).indexes(ConfigMap, PODS_BY_NODE)  # type: ignore[misc]


def a_mapper_of_another_kind() -> None:
    Builder(Widget).watches(Pod, to=widgets_of_pod)
    Builder(Widget).watches(ConfigMap, to=widgets_of_pod)  # type: ignore[arg-type]
