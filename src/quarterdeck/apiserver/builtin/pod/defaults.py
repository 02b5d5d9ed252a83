"""Defaults of pod specs, for pods and for pod templates.

`default_spec` is what both share; `default_pod` adds what only a pod itself gets (requests from
limits, host ports, service links). Documents are changed in place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.document.quantity import canonical, round_list

from .resources import aggregate_limits, aggregate_requests, is_pod_level_resource

_is_tag = re.compile(r"[\w][\w.-]{0,127}", re.ASCII).fullmatch
_is_path = re.compile(
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
).fullmatch


@lru_cache(maxsize=4096)
def _pull_policy(image: str) -> str:
    """Always for the tag `latest`, given or implied; a reference that does not parse has no tag."""
    rest, _, digest = image.partition("@")
    head, slash, last = rest.rpartition("/")
    name, colon, tag = last.partition(":")
    if colon:
        if tag != "latest" or not _is_tag(tag):
            return "IfNotPresent"
    elif digest or "@" in image:
        return "IfNotPresent"
    repository = f"{head}{slash}{name}"
    first, slash, remainder = repository.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost" or first.lower() != first):
        repository = remainder
    return "Always" if _is_path(repository) else "IfNotPresent"


def pull_policy(image: Any) -> str:
    text = image or ""
    return _pull_policy(text) if len(text) <= 512 else "IfNotPresent"


def default_pod(pod: Json) -> None:
    """A Pod's spec."""
    spec = pod.get("spec")
    if spec is None:
        spec = pod["spec"] = {}
    get = spec.get
    for container in get("containers") or ():
        _requests_from_limits(container)
    init_containers = get("initContainers")
    for container in init_containers or ():
        _requests_from_limits(container)
    default_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1  # templates keep theirs
    if get("resources"):
        _default_pod_level(spec)
    if get("enableServiceLinks") is None:
        spec["enableServiceLinks"] = True
    if get("hostNetwork"):
        for container in (*(get("containers") or ()), *(init_containers or ())):
            for port in container.get("ports") or ():
                if not port.get("hostPort") and port.get("containerPort"):
                    port["hostPort"] = port["containerPort"]


def _requests_from_limits(container: Json) -> None:
    resources = container.get("resources")
    if not resources:
        return
    limits = resources.get("limits")
    if not limits:
        return
    requests = resources.get("requests")
    if requests is None:
        resources["requests"] = dict(limits)
        return
    for name, quantity in limits.items():
        if name not in requests:
            requests[name] = quantity


def _default_pod_level(spec: Json) -> None:
    resources = spec["resources"]
    limits: Json = resources.get("limits") or {}
    requests: Json = resources.get("requests") or {}
    if not limits and not requests:
        return
    for name, total in aggregate_limits(spec).items():
        if name.startswith("hugepages-") and name not in requests:
            limits.setdefault(name, total.text)
    if limits:
        resources["limits"] = limits
        for name, total in aggregate_requests(spec).items():
            if is_pod_level_resource(name) and not name.startswith("hugepages-"):
                requests.setdefault(name, total.text)
        for name, quantity in limits.items():
            if is_pod_level_resource(name):
                requests.setdefault(name, quantity)
    if requests:
        resources["requests"] = requests


def default_template(template: Json) -> None:
    """A pod template; its metadata and spec are always shown."""
    meta = template.get("metadata")
    if meta is None:
        template["metadata"] = {}
    else:
        meta.pop("creationTimestamp", None)
    spec = template.get("spec")
    if spec is None:
        spec = template["spec"] = {}
    default_spec(spec)


def default_spec(spec: Json) -> None:
    """What pods and templates have in common."""
    get = spec.get
    if not get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if not get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if get("securityContext") is None:
        spec["securityContext"] = {}
    if get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    if not get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    if account := get("serviceAccountName"):
        spec["serviceAccount"] = account
    elif account := get("serviceAccount"):
        spec["serviceAccountName"] = account
    spec.pop("schedulingGroup", None)  # alpha, off
    if "containers" not in spec:
        spec["containers"] = None  # shown even when missing; validation refuses it
    for container in get("containers") or ():
        default_container(container)
    if containers := get("initContainers"):
        for container in containers:
            default_container(container)
    if containers := get("ephemeralContainers"):
        for container in containers:
            default_container(container)
    if volumes := get("volumes"):
        for volume in volumes:
            default_volume(volume)
    if resources := get("resources"):
        _round(resources)
    if overhead := get("overhead"):
        round_list(overhead)


def _round(resources: Json) -> None:
    if limits := resources.get("limits"):
        round_list(limits)
    if requests := resources.get("requests"):
        round_list(requests)


def default_container(container: Json) -> None:
    get = container.get
    if not get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(get("image"))
    if not get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    resources = get("resources")
    if resources is None:
        container["resources"] = {}
    elif resources:
        _round(resources)
    if ports := get("ports"):
        for port in ports:
            if not port.get("protocol"):
                port["protocol"] = "TCP"
    if env := get("env"):
        for variable in env:
            source = variable.get("valueFrom")
            if source:
                _default_field_sources(source)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container and (probe := container[name]) is not None:
            default_probe(probe)
    if lifecycle := get("lifecycle"):
        if "stopSignal" in lifecycle:  # alpha, off
            del lifecycle["stopSignal"]
            if not lifecycle:
                del container["lifecycle"]
        for name in ("postStart", "preStop"):
            handler = lifecycle.get(name)
            if handler and handler.get("httpGet") is not None:
                _default_http(handler["httpGet"])


def _default_field_sources(source: Json) -> None:
    field = source.get("fieldRef")
    if field is not None and not field.get("apiVersion"):
        field["apiVersion"] = "v1"
    resource = source.get("resourceFieldRef")
    if resource is not None:
        resource["divisor"] = canonical(resource.get("divisor") or "0")
    file = source.get("fileKeyRef")
    if file is not None and file.get("optional") is None:
        file["optional"] = False


def default_probe(probe: Json) -> None:
    if not probe.get("timeoutSeconds"):
        probe["timeoutSeconds"] = 1
    if not probe.get("periodSeconds"):
        probe["periodSeconds"] = 10
    if not probe.get("successThreshold"):
        probe["successThreshold"] = 1
    if not probe.get("failureThreshold"):
        probe["failureThreshold"] = 3
    if probe.get("httpGet") is not None:
        _default_http(probe["httpGet"])
    grpc = probe.get("grpc")
    if grpc is not None and grpc.get("service") is None:
        grpc["service"] = ""


def _default_http(action: Json) -> None:
    if not action.get("path"):
        action["path"] = "/"
    if not action.get("scheme"):
        action["scheme"] = "HTTP"


def default_volume(volume: Json) -> None:
    """One volume; without any source it is an emptyDir."""
    empty = True
    for key, source in volume.items():
        if key == "name" or source is None:
            continue
        empty = False
        if default := _VOLUME_DEFAULTS.get(key):
            default(source)
    if empty:
        volume["emptyDir"] = {}


def _default_mode(source: Json) -> None:
    if source.get("defaultMode") is None:
        source["defaultMode"] = 420


def _default_downward(source: Json) -> None:
    _default_mode(source)
    for item in source.get("items") or ():
        _default_field_sources(item)


def _default_projected(source: Json) -> None:
    _default_mode(source)
    for part in source.get("sources") or ():
        if (token := part.get("serviceAccountToken")) is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = 3600
        if (downward := part.get("downwardAPI")) is not None:
            for item in downward.get("items") or ():
                _default_field_sources(item)


def _default_host_path(source: Json) -> None:
    if source.get("type") is None:
        source["type"] = ""


def _default_image(source: Json) -> None:
    if not source.get("pullPolicy"):
        source["pullPolicy"] = pull_policy(source.get("reference"))


def _default_empty_dir(source: Json) -> None:
    if source.get("sizeLimit") is not None:
        source["sizeLimit"] = canonical(source["sizeLimit"])


def _fill(**values: Any) -> Callable[[Json], None]:
    def fill(source: Json) -> None:
        for key, value in values.items():
            if source.get(key) is None:
                source[key] = value

    return fill


def _default_ephemeral(source: Json) -> None:
    template = source.get("volumeClaimTemplate")
    if template is not None:
        template.setdefault("metadata", {})
        default_claim_spec(template.setdefault("spec", {}))


def default_claim_spec(spec: Json) -> None:
    """The spec of a PersistentVolumeClaim or of a claim template."""
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    resources = spec.get("resources")
    if resources is None:
        spec["resources"] = {}
    else:
        _round(resources)


_VOLUME_DEFAULTS: Final[Mapping[str, Callable[[Json], None]]] = {
    "secret": _default_mode,
    "configMap": _default_mode,
    "downwardAPI": _default_downward,
    "projected": _default_projected,
    "hostPath": _default_host_path,
    "image": _default_image,
    "emptyDir": _default_empty_dir,
    "ephemeral": _default_ephemeral,
    "iscsi": _fill(iscsiInterface="default"),
    "rbd": _fill(pool="rbd", user="admin", keyring="/etc/ceph/keyring"),
    "azureDisk": _fill(cachingMode="ReadWrite", kind="Shared", fsType="ext4", readOnly=False),
    "scaleIO": _fill(storageMode="ThinProvisioned", fsType="xfs"),
}
