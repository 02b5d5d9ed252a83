"""DefaultIngressClass: an Ingress that names no class gets the default one; of several the newest."""

from __future__ import annotations

from typing import Final

from quarterdeck.apiserver.admission.attributes import Attributes

from .base import CREATE, Plugin, annotations_of, keys
from .storage import newest

_GROUP: Final = "networking.k8s.io"
_CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"
_DEFAULT_MARK: Final = "ingressclass.kubernetes.io/is-default-class"


class DefaultIngressClass(Plugin):
    """Sets `spec.ingressClassName`."""

    name = "DefaultIngressClass"
    mutates = keys(_GROUP, ("ingresses",), (CREATE,))

    def mutate(self, attributes: Attributes) -> None:
        ingress = attributes.object
        if ingress is None or _CLASS_ANNOTATION in annotations_of(ingress):
            return
        spec = ingress.setdefault("spec", {})
        if spec.get("ingressClassName") is not None:
            return
        classes = attributes.context.cluster.list(_GROUP, "ingressclasses")
        found = newest([each for each in classes if annotations_of(each).get(_DEFAULT_MARK) == "true"])
        if found is not None:
            spec["ingressClassName"] = found["metadata"]["name"]
