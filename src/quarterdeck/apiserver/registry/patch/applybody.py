"""The configuration in the body of a server-side apply."""

from __future__ import annotations

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.apply.write import object_text
from quarterdeck.apiserver.document import decoding
from quarterdeck.apiserver.document.unmarshal import unmarshal_error
from quarterdeck.apiserver.registry.body import yaml_problem
from quarterdeck.apiserver.registry.request import ApiRequest, WriteOptions
from quarterdeck.apiserver.resource.resource import Resource, Undecodable


def parse_apply(request: ApiRequest) -> Json:
    """The configuration of an apply: YAML (or JSON), of the request's type."""
    resource = request.resource
    body = request.http.body
    try:
        if body[:1] == b"{":
            config = decoding.with_integers(body, decoding.parse_json(body, repairs=False))
        else:
            config = decoding.parse_yaml(body)
    except decoding.ParseError:
        try:
            config = decoding.parse_yaml(body)
        except decoding.ParseError as error:
            raise status.bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    if config is None:
        config = {}
    if not isinstance(config, dict):
        raise status.bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: "
            + unmarshal_error(config, "Go value of type map[string]interface {}")
        )
    for key in ("apiVersion", "kind"):
        if not isinstance(config.get(key), str):
            config.pop(key, None)
    if not config.get("kind") or not config.get("apiVersion"):
        raise status.bad_request(
            "invalid object type: /, Kind="
            if not config.get("apiVersion") and not config.get("kind")
            else f"invalid object type: {_group_version(config)}, Kind={config.get('kind') or ''}"
        )
    if config["apiVersion"] != resource.api_version or config["kind"] != resource.kind:
        raise status.bad_request(f"invalid object type: {_group_version(config)}, Kind={config['kind']}")
    meta = config.get("metadata")
    if not isinstance(meta, dict):
        meta = {}
    if "managedFields" in meta and meta["managedFields"] is not None:
        raise status.bad_request("metadata.managedFields must be nil")
    return config


def check_repeated_keys(request: ApiRequest, options: WriteOptions, config: Json) -> None:
    """Field validation of an apply's text, in which the last of several equal keys counts."""
    body = request.http.body
    if options.field_validation == "Ignore" or (
        body[:1] == b"{" and not decoding.duplicate_fields(body, config)
    ):
        return
    repeated = decoding.yaml_duplicates(body)
    if repeated and options.field_validation == "Strict":
        why = f"error converting YAML to JSON: {yaml_problem(repeated)}"
        raise status.bad_request(f"error strict decoding YAML: {why}")
    for text in repeated:
        request.warn(text)


def unconvertible(resource: Resource, config: Json, error: Undecodable) -> status.StatusError:
    """500 for an applied object of a built-in kind that is no value of its Go type."""
    if resource.is_custom:
        return error
    group_version = _group_version(config)
    return status.plain_error(
        f"failed to convert new object ({object_text(config)}) to proper version: "
        f"unable to convert unstructured object to {group_version}, Kind={resource.kind}: {error.converted}"
    )


def _group_version(config: Json) -> str:
    version = str(config.get("apiVersion", ""))
    return version if "/" in version else f"/{version}"
