"""The kind NodeGroup in its three versions, and what else of Deckhouse the operator reads.

``NodeGroup`` is v1. ``VERSIONS`` maps apiVersion to class, oldest first; ``definition()`` is the CRD.
"""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.api import Resource, crd
from quarterdeck.api.crd import WebhookConversion
from quarterdeck.operators.nodegroup import names

from . import v1, v1alpha1, v1alpha2
from .moduleconfig import ModuleConfig
from .v1 import NodeGroup

__all__ = ["VERSIONS", "ModuleConfig", "NodeGroup", "definition", "v1", "v1alpha1", "v1alpha2"]

VERSIONS: Final[dict[str, type[Resource]]] = {
    names.V1ALPHA1: v1alpha1.NodeGroup,
    names.V1ALPHA2: v1alpha2.NodeGroup,
    names.V1: v1.NodeGroup,
}


def definition(conversion: WebhookConversion | None = None) -> dict[str, Any]:
    """The CustomResourceDefinition; ``conversion`` is patched in at start on a cluster."""
    return crd(*VERSIONS.values(), conversion=conversion)
