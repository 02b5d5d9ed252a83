"""ModuleConfig: settings of a Deckhouse module; read, never written, by this operator."""

from __future__ import annotations

from quarterdeck.api import UNSET, Maybe, Model, Resource
from quarterdeck.api.model import JsonObjectField
from quarterdeck.operators.nodegroup.names import GROUP


class ModuleConfigSpec(Model):
    """Settings of one module."""

    version: Maybe[int] = UNSET
    enabled: Maybe[bool] = UNSET
    settings: Maybe[JsonObjectField] = UNSET


class ModuleConfig(Resource, group=GROUP, version="v1alpha1", scope="Cluster", short_names=["mc"]):
    """Settings of a Deckhouse module; ``global`` holds those of the cluster."""

    spec: Maybe[ModuleConfigSpec] = UNSET
