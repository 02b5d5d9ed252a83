"""Metrics as autoscaling reads them: resources of pods, custom and external ones.

The texts of failures are those of kube-controller-manager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec

from quarterdeck.api import Duration, GroupVersionKind, Quantity, Selector, Time
from quarterdeck.api.k8s import CrossVersionObjectReference
from quarterdeck.client import Client
from quarterdeck.errors import ApiError, NotFound, QuarterdeckError, ReconcileError

_RESOURCES: Final = "/apis/metrics.k8s.io/v1beta1"
_CUSTOM: Final = "custom.metrics.k8s.io"
_EXTERNAL: Final = "/apis/external.metrics.k8s.io/v1beta1"
_USUAL_WINDOW: Final = 60.0
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class Measure(NamedTuple):
    """What was measured of one pod."""

    value: int
    """In thousandths."""
    time: float = 0.0
    """When, seconds since 1970."""
    window: float = 0.0
    """Over how many seconds."""


Measures = Mapping[str, Measure]
"""By the name of the pod."""


async def resource_usage(
    client: Client, resource: str, namespace: str, selector: Selector, container: str = ""
) -> Measures:
    """What pods use of a resource, or one of their containers; raises ``ReconcileError``."""
    path = f"{_RESOURCES}/namespaces/{quote(namespace)}/pods"
    what = f"unable to get metrics for resource {resource}: "
    try:
        items = await _items(client, path, labelSelector=str(selector))
    except NotFound:
        text = "the server could not find the requested resource (get pods.metrics.k8s.io)"
        raise _failed(f"{what}unable to fetch metrics from resource metrics API: {text}") from None
    except QuarterdeckError as error:
        raise _failed(f"{what}unable to fetch metrics from resource metrics API: {error}") from error
    if not items:
        raise _failed(f"{what}no metrics returned from resource metrics API")
    found = {}
    for item in items:
        usage = _usage(item.get("containers") or [], resource, container)
        if usage is not None:
            window = Duration(str(item.get("window", "0s"))).seconds
            found[item["metadata"]["name"]] = Measure(usage, _seconds(item.get("timestamp")), window)
    return found


def _usage(containers: list[dict[str, Any]], resource: str, container: str) -> int | None:
    """The usage of one container, or of all; ``None`` if one does not say."""
    chosen = [each for each in containers if not container or each.get("name") == container]
    amounts = [each.get("usage", {}).get(resource) for each in chosen]
    if not amounts or None in amounts:
        return None
    return sum(Quantity(amount).milli_value for amount in amounts)


async def pod_values(
    client: Client, metric: str, namespace: str, selector: Selector, metric_selector: Selector
) -> Measures:
    """The values of a custom metric of pods."""
    what = f"unable to get metric {metric}: unable to fetch metrics from custom metrics API: "
    query = {"labelSelector": str(selector), "metricLabelSelector": str(metric_selector)}
    try:
        base = await _custom_path(client)
        path = f"{base}/namespaces/{quote(namespace)}/pods/%2A/{quote(metric, safe='')}"
        items = await _items(client, path, **query)
    except QuarterdeckError as error:
        raise _failed(f"{what}{error}") from error
    if not items:
        raise _failed(f"unable to get metric {metric}: no metrics returned from custom metrics API")
    found = {}
    for item in items:
        window = float(item.get("windowSeconds") or _USUAL_WINDOW)
        value = Quantity(item["value"]).milli_value
        found[item["describedObject"]["name"]] = Measure(value, _seconds(item.get("timestamp")), window)
    return found


async def object_value(
    client: Client,
    metric: str,
    namespace: str,
    target: CrossVersionObjectReference,
    metric_selector: Selector,
) -> int:
    """The value of a custom metric of one object, in thousandths; raises ``ReconcileError``."""
    try:
        base = await _custom_path(client)
        where = await _object_path(client, namespace, target)
        path = f"{base}/{where}/{quote(metric, safe='')}"
        items = await _items(client, path, metricLabelSelector=str(metric_selector))
        if len(items) != 1:
            raise ReconcileError("the custom metrics API server returned no value")
    except QuarterdeckError as error:
        text = f"unable to fetch metrics from custom metrics API: {error}"
        who = f"{target.kind} {namespace}/{target.name}"
        raise _failed(f"unable to get metric {metric}: {text} on {who}") from error
    return Quantity(items[0]["value"]).milli_value


async def _object_path(client: Client, namespace: str, target: CrossVersionObjectReference) -> str:
    space, gvk = quote(namespace), GroupVersionKind.parse(target.api_version or "v1", target.kind)
    if (gvk.group, gvk.kind) == ("", "Namespace"):
        return f"namespaces/{space}/metrics"
    mapping = await client.mapper.mapping(gvk)
    resource = mapping.gvr.resource + (f".{gvk.group}" if gvk.group else "")
    return f"namespaces/{space}/{resource}/{quote(target.name)}"


async def external_values(client: Client, metric: str, namespace: str, selector: Selector) -> list[int]:
    """The values of a metric from outside the cluster, in thousandths."""
    path = f"{_EXTERNAL}/namespaces/{quote(namespace)}/{quote(metric, safe='')}"
    try:
        items = await _items(client, path, labelSelector=str(selector))
    except NotFound:
        text = f"the server could not find the requested resource (get {metric}.external.metrics.k8s.io)"
        raise _failed(f"unable to fetch metrics from external metrics API: {text}") from None
    except QuarterdeckError as error:
        raise _failed(f"unable to fetch metrics from external metrics API: {error}") from error
    if not items:
        raise _failed("no metrics returned from external metrics API")
    return [Quantity(item["value"]).milli_value for item in items]


async def _custom_path(client: Client) -> str:
    """Where custom metrics are served; raises ``ReconcileError`` if they are not."""
    try:
        answer = await client.raw("GET", f"/apis/{_CUSTOM}")
    except ApiError:
        raise _failed(f"no custom metrics API ({_CUSTOM}) registered") from None
    return f"/apis/{_decode(answer.body)['preferredVersion']['groupVersion']}"


async def _items(client: Client, path: str, **query: str) -> list[dict[str, Any]]:
    answer = await client.raw("GET", path, query={key: value for key, value in query.items() if value})
    return _decode(answer.body).get("items") or []


def _failed(text: str) -> ReconcileError:
    return ReconcileError(text)


def _seconds(time: str | None) -> float:
    return Time(time).timestamp() if time else 0.0
