"""Custom resource definitions.

Made by ``make kubernetes``: do not edit. What a newer server adds survives as unknown fields.
"""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api.instant import OptionalTime
from quarterdeck.api.marker import Atomic, Int32, Int64, ListMap, Preserve, Required
from quarterdeck.api.model import UNSET, JsonObjectField, Maybe, Model, Seq, field, omitempty
from quarterdeck.api.resource import Resource

__all__ = [
    "CustomResourceColumnDefinition",
    "CustomResourceConversion",
    "CustomResourceDefinition",
    "CustomResourceDefinitionCondition",
    "CustomResourceDefinitionNames",
    "CustomResourceDefinitionSpec",
    "CustomResourceDefinitionStatus",
    "CustomResourceDefinitionVersion",
    "CustomResourceSubresourceScale",
    "CustomResourceSubresourceStatus",
    "CustomResourceSubresources",
    "CustomResourceValidation",
    "SelectableField",
    "ServiceReference",
    "WebhookClientConfig",
    "WebhookConversion",
]


class CustomResourceDefinitionNames(Model):
    plural: Annotated[str, Required()] = omitempty("")
    singular: str = omitempty("")
    short_names: Annotated[Seq[str], Atomic()] = omitempty(())
    kind: Annotated[str, Required()] = omitempty("")
    list_kind: str = omitempty("")
    categories: Annotated[Seq[str], Atomic()] = omitempty(())


class CustomResourceValidation(Model):
    open_apiv3_schema: Annotated[Maybe[JsonObjectField], Preserve()] = field(
        name="openAPIV3Schema", default=UNSET
    )


class CustomResourceSubresourceStatus(Model):
    pass


class CustomResourceSubresourceScale(Model):
    spec_replicas_path: Annotated[str, Required()] = omitempty("")
    status_replicas_path: Annotated[str, Required()] = omitempty("")
    label_selector_path: Maybe[str] = UNSET


class CustomResourceSubresources(Model):
    status: Maybe[CustomResourceSubresourceStatus] = UNSET
    scale: Maybe[CustomResourceSubresourceScale] = UNSET


class CustomResourceColumnDefinition(Model):
    name: Annotated[str, Required()] = omitempty("")
    type: Annotated[str, Required()] = omitempty("")
    format: str = omitempty("")
    description: str = omitempty("")
    priority: Annotated[Maybe[int], Int32] = UNSET
    json_path: Annotated[str, Required()] = omitempty("")


class SelectableField(Model):
    json_path: Annotated[str, Required()] = omitempty("")


class CustomResourceDefinitionVersion(Model):
    name: Annotated[str, Required()] = omitempty("")
    served: Annotated[Maybe[bool], Required()] = UNSET
    storage: Annotated[Maybe[bool], Required()] = UNSET
    deprecated: Maybe[bool] = UNSET
    deprecation_warning: Maybe[str] = UNSET
    schema: Maybe[CustomResourceValidation] = UNSET
    subresources: Maybe[CustomResourceSubresources] = UNSET
    additional_printer_columns: Annotated[Seq[CustomResourceColumnDefinition], Atomic()] = omitempty(())
    selectable_fields: Annotated[Seq[SelectableField], Atomic()] = omitempty(())


class ServiceReference(Model):
    namespace: Annotated[str, Required()] = omitempty("")
    name: Annotated[str, Required()] = omitempty("")
    path: Maybe[str] = UNSET
    port: Annotated[Maybe[int], Int32] = UNSET


class WebhookClientConfig(Model):
    url: Maybe[str] = UNSET
    service: Maybe[ServiceReference] = UNSET
    ca_bundle: Maybe[bytes] = UNSET


class WebhookConversion(Model):
    client_config: Maybe[WebhookClientConfig] = UNSET
    conversion_review_versions: Annotated[Seq[str], Atomic(), Required()] = omitempty(())


class CustomResourceConversion(Model):
    strategy: Annotated[str, Required()] = omitempty("")
    webhook: Maybe[WebhookConversion] = UNSET


class CustomResourceDefinitionSpec(Model):
    group: Annotated[str, Required()] = omitempty("")
    names: Annotated[CustomResourceDefinitionNames, Required()] = omitempty(CustomResourceDefinitionNames())
    scope: Annotated[str, Required()] = omitempty("")
    versions: Annotated[Seq[CustomResourceDefinitionVersion], Atomic(), Required()] = omitempty(())
    conversion: Maybe[CustomResourceConversion] = UNSET
    preserve_unknown_fields: Maybe[bool] = UNSET


class CustomResourceDefinitionCondition(Model):
    type: Annotated[str, Required()] = omitempty("")
    status: Annotated[str, Required()] = omitempty("")
    last_transition_time: OptionalTime = UNSET
    reason: str = omitempty("")
    message: str = omitempty("")
    observed_generation: Annotated[Maybe[int], Int64] = UNSET


class CustomResourceDefinitionStatus(Model):
    conditions: Annotated[Seq[CustomResourceDefinitionCondition], ListMap("type")] = omitempty(())
    accepted_names: CustomResourceDefinitionNames = omitempty(CustomResourceDefinitionNames())
    stored_versions: Annotated[Seq[str], Atomic()] = omitempty(())
    observed_generation: Annotated[Maybe[int], Int64] = UNSET


class CustomResourceDefinition(
    Resource,
    group="apiextensions.k8s.io",
    version="v1",
    plural="customresourcedefinitions",
    scope="Cluster",
    short_names=["crd", "crds"],
    status=True,
):
    spec: Annotated[CustomResourceDefinitionSpec, Required()] = omitempty(CustomResourceDefinitionSpec())
    status: CustomResourceDefinitionStatus = omitempty(CustomResourceDefinitionStatus())
