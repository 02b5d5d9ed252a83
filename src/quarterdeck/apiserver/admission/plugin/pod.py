"""Plugins for pods: Priority, DefaultTolerationSeconds, RuntimeClass, PodTopologyLabels and
PodResizeValidator.
"""

from __future__ import annotations

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.admission.attributes import Attributes
from quarterdeck.apiserver.builtin.check import priority, resize, runtimeclass, tolerations, topologylabel

from .base import CREATE, UPDATE, Plugin, keys

_PODS = keys("", ("pods",), (CREATE, UPDATE))
_NEW_PODS = keys("", ("pods",), (CREATE,))


def _pod(attributes: Attributes) -> Json:
    """The pod, with a spec to write to."""
    pod = attributes.object
    assert pod is not None
    if pod.get("spec") is None:
        pod["spec"] = {}
    return pod


class Priority(Plugin):
    """From a PriorityClass's name to a pod's numbers; one class may be the default."""

    name = "Priority"
    mutates = _PODS
    validates = keys("scheduling.k8s.io", ("priorityclasses",), (CREATE, UPDATE))

    def mutate(self, attributes: Attributes) -> None:
        pod = _pod(attributes)
        if attributes.operation == UPDATE:
            priority.admit_changed_pod(pod, attributes.old_object or {})
        else:
            priority.admit_new_pod(pod, attributes.object_name(), attributes.context.cluster)

    def validate(self, attributes: Attributes) -> None:
        if attributes.object is not None:
            priority.check_class(
                attributes.object,
                attributes.object_name(),
                attributes.context.cluster,
                new=attributes.operation == CREATE,
            )


class DefaultTolerationSeconds(Plugin):
    """Pods stay five minutes on a node that is not ready or unreachable."""

    name = "DefaultTolerationSeconds"
    mutates = _PODS

    def mutate(self, attributes: Attributes) -> None:
        tolerations.add_default_tolerations(_pod(attributes))


class RuntimeClass(Plugin):
    """Overhead and scheduling of the RuntimeClass a pod names."""

    name = "RuntimeClass"
    mutates = _NEW_PODS
    validates = _NEW_PODS

    def mutate(self, attributes: Attributes) -> None:
        pod = _pod(attributes)
        if pod["spec"].get("runtimeClassName"):
            runtimeclass.apply_class(pod, attributes.object_name(), attributes.context.cluster)

    def validate(self, attributes: Attributes) -> None:
        if attributes.object is not None:
            runtimeclass.check_class(attributes.object, attributes.object_name(), attributes.context.cluster)


class PodTopologyLabels(Plugin):
    """A pod carries the zone and region of its node."""

    name = "PodTopologyLabels"
    mutates = keys("", ("pods", "pods/binding"), (CREATE,))

    def mutate(self, attributes: Attributes) -> None:
        obj = attributes.object
        if obj is None:
            return
        if attributes.subresource == "binding":
            target = obj.get("target") or {}
            node = target.get("name") if target.get("kind") == "Node" else None
        else:
            node = (obj.get("spec") or {}).get("nodeName")
        if node:
            topologylabel.copy_labels(obj, node, attributes.context.cluster)


class PodResizeValidator(Plugin):
    """A resized pod has to fit on its node."""

    name = "PodResizeValidator"
    validates = keys("", ("pods/resize",), (UPDATE,))

    def validate(self, attributes: Attributes) -> None:
        if attributes.object is not None:
            resize.check_resize(
                attributes.object,
                attributes.old_object or {},
                attributes.object_name(),
                attributes.context.cluster,
            )
