"""Kinds to custom resource definitions.

``crd(V1, V1alpha1)`` puts several versions of one kind into one ``apiextensions.k8s.io/v1`` document,
in the order given. What must agree between the versions (group, kind, names, scope) is checked, and so
is that exactly one version is stored. The result is a plain dictionary with a deterministic order:
write it as YAML, apply it, or compare it with what is committed.
"""

from functools import lru_cache
from typing import Any, Final

import msgspec

from quarterdeck.api.resource import Column, Resource, ResourceInfo
from quarterdeck.api.schema import schema_of
from quarterdeck.errors import SchemaError

_SHARED: Final = ("group", "kind", "plural", "singular", "list_kind", "scope", "short_names", "categories")


class WebhookConversion(msgspec.Struct, frozen=True):
    """The conversion stanza: who converts between versions, by URL or by service."""

    url: str = ""
    service: str = ""
    """Name of the Service; used when ``url`` is empty."""
    namespace: str = ""
    path: str = "/convert"
    port: int = 443
    ca_bundle: bytes = b""
    """PEM certificates that sign the webhook's certificate."""
    review_versions: tuple[str, ...] = ("v1",)

    def to_dict(self) -> dict[str, Any]:
        """The ``spec.conversion`` document."""
        import base64

        client: dict[str, Any] = {}
        if self.url:
            client["url"] = self.url
        else:
            client["service"] = {
                "namespace": self.namespace,
                "name": self.service,
                "path": self.path,
                "port": self.port,
            }
        if self.ca_bundle:
            client["caBundle"] = base64.b64encode(self.ca_bundle).decode()
        return {
            "strategy": "Webhook",
            "webhook": {"conversionReviewVersions": list(self.review_versions), "clientConfig": client},
        }


def crd(*versions: type[Resource], conversion: WebhookConversion | None = None) -> dict[str, Any]:
    """The definition of one kind; raises ``SchemaError`` for types that have no structural schema."""
    infos = [cls.type_info for cls in versions]
    first = infos[0]
    _check_versions(infos)
    names: dict[str, Any] = {"kind": first.kind, "listKind": first.list_kind, "plural": first.plural}
    if first.short_names:
        names["shortNames"] = list(first.short_names)
    names["singular"] = first.singular
    if first.categories:
        names["categories"] = list(first.categories)
    spec: dict[str, Any] = {
        "group": first.group,
        "names": names,
        "scope": first.scope,
        "versions": [_version(cls) for cls in versions],
    }
    if conversion is not None:
        spec["conversion"] = conversion.to_dict()
    metadata: dict[str, Any] = {"name": f"{first.plural}.{first.group}"}
    for key, attribute in (("annotations", "crd_annotations"), ("labels", "crd_labels")):
        merged = {name: value for info in infos for name, value in getattr(info, attribute).items()}
        if merged:
            metadata[key] = dict(sorted(merged.items()))
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


def _check_versions(infos: list[ResourceInfo]) -> None:
    first = infos[0]
    if not first.group:
        raise SchemaError(f"{first.kind} has no group: custom resources cannot live in the core group")
    for info in infos[1:]:
        for attribute in _SHARED:
            if getattr(info, attribute) != getattr(first, attribute):
                raise SchemaError(
                    f"{attribute} of {info.version} is {getattr(info, attribute)!r}, "
                    f"of {first.version} {getattr(first, attribute)!r}",
                    first.kind,
                )
    names = [info.version for info in infos]
    if len(set(names)) != len(names):
        raise SchemaError(f"versions {names} are not distinct", first.kind)
    stored = [info.version for info in infos if info.storage]
    if len(stored) != 1:
        raise SchemaError(f"exactly one version must be stored, found {stored}", first.kind)


@lru_cache(maxsize=128)
def _schema_text(cls: type[Resource]) -> bytes:
    """The schema of a class, which does not change; as text, because who gets it may edit it."""
    return msgspec.json.encode(schema_of(cls))


def _version(cls: type[Resource]) -> dict[str, Any]:
    info = cls.type_info
    version: dict[str, Any] = {"name": info.version, "served": info.served, "storage": info.storage}
    if info.deprecated:
        version["deprecated"] = True
        if isinstance(info.deprecated, str):
            version["deprecationWarning"] = info.deprecated
    try:
        schema = msgspec.json.decode(_schema_text(cls))
    except SchemaError as error:
        raise SchemaError(error.detail, f"{info.kind} {info.version}: {error.path}") from error
    version["schema"] = {"openAPIV3Schema": schema}
    subresources: dict[str, Any] = {}
    if info.status:
        subresources["status"] = {}
    if info.scale is not None:
        subresources["scale"] = {
            "specReplicasPath": info.scale.spec_path,
            "statusReplicasPath": info.scale.status_path,
        }
        if info.scale.selector_path:
            subresources["scale"]["labelSelectorPath"] = info.scale.selector_path
    if subresources:
        version["subresources"] = subresources
    if info.columns:
        version["additionalPrinterColumns"] = [_column(column, info) for column in info.columns]
    if info.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in info.selectable]
    return version


def _column(column: Column, info: ResourceInfo) -> dict[str, Any]:
    if not column.path.startswith("."):
        raise SchemaError(f"path {column.path} of column {column.name} must start with a dot", info.kind)
    out: dict[str, Any] = {"jsonPath": column.path, "name": column.name, "type": column.type}
    if column.description:
        out["description"] = column.description
    if column.format:
        out["format"] = column.format
    if column.priority:
        out["priority"] = column.priority
    return out
