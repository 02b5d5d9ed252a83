"""Plugins for nodes: TaintNodesByCondition and NodeDeclaredFeatureValidator."""

from __future__ import annotations

from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.admission.attributes import Attributes
from quarterdeck.apiserver.builtin.check import tolerations

from .base import CREATE, UPDATE, Plugin, keys, spec_of


class TaintNodesByCondition(Plugin):
    """A new node takes no pods until its kubelet says that it is ready."""

    name = "TaintNodesByCondition"
    mutates = keys("", ("nodes",), (CREATE,))

    def mutate(self, attributes: Attributes) -> None:
        if attributes.object is not None:
            tolerations.add_not_ready_taint(attributes.object)


class NodeDeclaredFeatureValidator(Plugin):
    """A change of a bound pod needs a node that declares the feature for it."""

    name = "NodeDeclaredFeatureValidator"
    validates = keys("", ("pods", "pods/resize"), (UPDATE,))

    def validate(self, attributes: Attributes) -> None:
        pod, old = attributes.object or {}, attributes.old_object or {}
        node_name = spec_of(pod).get("nodeName")
        if not node_name or pod["metadata"].get("generation") == old["metadata"].get("generation"):
            return
        needed = _features_of_update(spec_of(pod), spec_of(old))
        if not needed:
            return
        node = attributes.context.cluster.get("", "nodes", "", node_name)
        if node is None:
            raise attributes.forbidden(f'node "{node_name}" not found')
        declared = (node.get("status") or {}).get("declaredFeatures") or ()
        if missing := [feature for feature in needed if feature not in declared]:
            raise attributes.forbidden(
                f"pod update requires features {', '.join(missing)} which are not available on node "
                f'"{node_name}"'
            )


_POD_LEVEL_RESIZE: Final = "InPlacePodLevelResourcesVerticalScaling"
_INIT_CONTAINER_RESIZE: Final = "InPlacePodVerticalScalingInitContainers"


def _features_of_update(new: Json, old: Json) -> list[str]:
    features = []
    if (new.get("resources") or {}) != (old.get("resources") or {}):
        features.append(_POD_LEVEL_RESIZE)
    pairs = zip(old.get("initContainers") or (), new.get("initContainers") or (), strict=False)
    for before, after in pairs:
        if before.get("restartPolicy") != "Always" and before.get("resources") != after.get("resources"):
            features.append(_INIT_CONTAINER_RESIZE)
            break
    return features
