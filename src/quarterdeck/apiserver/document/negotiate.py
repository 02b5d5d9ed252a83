"""Content negotiation: which body a client wants and in which format it sends its own.

We produce JSON and YAML, plain or transformed into a Table or into metadata only; protobuf is
read, never written.
"""

from __future__ import annotations

from typing import NamedTuple

JSON = "application/json"
YAML = "application/yaml"


class Output(NamedTuple):
    """`kind` is "", "Table", "PartialObjectMetadata" (also "...List") or "APIGroupDiscoveryList"."""

    kind: str
    yaml: bool
    #: version of the transformed body ("v1", "v1beta1", "v2")
    version: str

    @property
    def content_type(self) -> str:
        return YAML if self.yaml else JSON


PLAIN = Output("", False, "")
_OBJECT_KINDS = {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}
_cache: dict[tuple[str, bool, bool, bool], Output | None] = {}


def accept(header: str, *, objects: bool = True, watch: bool = False, tables: bool = True) -> Output | None:
    """The best output for an Accept header; None when we can produce nothing it lists.

    `objects` tells object requests (Tables, metadata) from discovery (APIGroupDiscoveryList). `tables` is
    False for what is not stored and cannot be shown as a Table.
    """
    if header in ("", "*/*", JSON):
        return PLAIN
    key = (header, objects, watch, tables)
    if key in _cache:
        return _cache[key]
    result = _negotiate(header, objects, watch, tables)
    if len(_cache) < 1024:  # clients use a handful of values; a hostile one must not fill the memory
        _cache[key] = result
    return result


def _negotiate(header: str, objects: bool, watch: bool, tables: bool) -> Output | None:
    choices: list[tuple[float, int, str, dict[str, str]]] = []
    for position, clause in enumerate(header.split(",")):
        media, *raw = (part.strip() for part in clause.split(";"))
        params = {}
        for item in raw:
            name, _, value = item.partition("=")
            params[name.strip().lower()] = value.strip().strip('"')
        try:
            quality = float(params.pop("q", "1"))
        except ValueError:
            quality = 1.0
        choices.append((-quality, position, media.lower(), params))
    choices.sort()
    for _, _, media, params in choices:
        output = _produce(media, params, objects, watch)
        if output is not None and (tables or output.kind != "Table"):
            return output
    return None


def _produce(media: str, params: dict[str, str], objects: bool, watch: bool) -> Output | None:
    if media in (JSON, "*/*", "application/*"):
        yaml = False
    elif media == YAML and not watch:
        yaml = True
    else:
        return None
    if params.get("stream", "watch") != "watch":
        return None
    kind = params.get("as", "")
    if not kind:
        return Output("", yaml, "")
    group, version = params.get("g", ""), params.get("v", "")
    if objects:
        if kind in _OBJECT_KINDS and group == "meta.k8s.io" and version in ("v1", "v1beta1"):
            return Output(kind, yaml, version)
        return None
    if kind == "APIGroupDiscoveryList" and group == "apidiscovery.k8s.io" and version == "v2":
        return Output(kind, yaml, version)
    return None
