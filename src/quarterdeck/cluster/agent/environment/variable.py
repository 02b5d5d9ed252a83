"""The environment of a container: variables, references and their expansion. Pure.

Objects that variables refer to are given; who calls has read them (see ``source``). Texts of errors are a
kubelet's: users search for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from quarterdeck.api import Quantity
from quarterdeck.api.k8s import Pod, Service
from quarterdeck.api.k8s.pod import EnvVarSource
from quarterdeck.cluster.agent.record.view import AnyContainer
from quarterdeck.errors import QuarterdeckError

_SUBSCRIPT: Final = re.compile(r"^(metadata\.(?:labels|annotations))\['(.*)'\]$")


class ContainerConfigError(QuarterdeckError):
    """A container that cannot be made as it is written; the reason ``CreateContainerConfigError``."""


class References:
    """The ConfigMaps and Secrets of a namespace that a pod names; None for those that do not exist."""

    def __init__(
        self,
        config_maps: Mapping[str, Mapping[str, str] | None],
        secrets: Mapping[str, Mapping[str, str] | None],
    ) -> None:
        self.config_maps: Final = config_maps
        self.secrets: Final = secrets


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace ``$(NAME)``; ``$$`` is a dollar sign, and names that are not known stay as they are."""
    out: list[str] = []
    place = 0
    while place < len(text):
        sign = text[place]
        following = text[place + 1 : place + 2]
        if sign != "$" or not following:
            out.append(sign)
            place += 1
        elif following == "$":
            out.append("$")
            place += 2
        elif following == "(" and (end := text.find(")", place)) > 0:
            name = text[place + 2 : end]
            out.append(variables.get(name, f"$({name})"))
            place = end + 1
        else:
            out.append(sign + following)
            place += 2
    return "".join(out)


def container_environment(
    pod: Pod,
    container: AnyContainer,
    references: References,
    services: Mapping[str, str],
    allocatable: Mapping[str, Quantity],
    files: Mapping[tuple[str, str, str], str | None] | None = None,
) -> dict[str, str]:
    """What the container's program finds in its environment, beyond what its image brings.

    ``services`` are the variables of Services (``service_environment``), ``allocatable`` stands in for limits
    that are not set, ``files`` hold the values of ``fileKeyRef`` by volume, path and key. Raises
    ``ContainerConfigError``.
    """
    made: dict[str, str] = dict(services)
    for source in container.env_from:
        reference = source.config_map_ref or source.secret_ref
        if not reference:
            continue
        is_map = bool(source.config_map_ref)
        kind, known = ("configmap", references.config_maps) if is_map else ("secret", references.secrets)
        data = known.get(reference.name)
        if data is None:
            if reference.optional is True:
                continue
            raise ContainerConfigError(f'{kind} "{reference.name}" not found')
        made |= {source.prefix + key: value for key, value in data.items() if key and "=" not in key}
    for variable in container.env:
        if variable.value_from:
            value = _referred(pod, container, variable.value_from, references, allocatable, files or {})
            if value is None:
                continue
        else:
            value = expand(variable.value, made)
        made[variable.name] = value
    return made


def _referred(
    pod: Pod,
    container: AnyContainer,
    source: EnvVarSource,
    references: References,
    allocatable: Mapping[str, Quantity],
    files: Mapping[tuple[str, str, str], str | None],
) -> str | None:
    """The value a variable refers to; None for one that may be missing and is."""
    namespace = pod.metadata.namespace
    if source.field_ref:
        return field_value(pod, source.field_ref.field_path)
    if source.resource_field_ref:
        reference = source.resource_field_ref
        return resource_value(
            pod,
            reference.container_name or container.name,
            reference.resource,
            reference.divisor or Quantity("0"),
            allocatable,
        )
    if source.config_map_key_ref:
        key = source.config_map_key_ref
        return _key_of(
            references.config_maps.get(key.name),
            "ConfigMap",
            namespace,
            key.name,
            key.key,
            key.optional is True,
        )
    if source.secret_key_ref:
        secret = source.secret_key_ref
        return _key_of(
            references.secrets.get(secret.name),
            "Secret",
            namespace,
            secret.name,
            secret.key,
            secret.optional is True,
        )
    if source.file_key_ref:
        file = source.file_key_ref
        found = files.get((file.volume_name, file.path, file.key))
        if found is None and file.optional is not True:
            raise ContainerConfigError(
                f"environment variable key {file.key!r} not found in file {file.path!r}"
            )
        return found
    return ""


def _key_of(
    data: Mapping[str, str] | None, kind: str, namespace: str, name: str, key: str, optional: bool
) -> str | None:
    if data is None:
        if optional:
            return None
        raise ContainerConfigError(f'{kind.lower()} "{name}" not found')
    value = data.get(key)
    if value is None and not optional:
        raise ContainerConfigError(f"couldn't find key {key} in {kind} {namespace}/{name}")
    return value


def field_value(pod: Pod, path: str) -> str:
    """A field of the pod as text. Raises ``ContainerConfigError`` for one that cannot be had this way."""
    subscript = _SUBSCRIPT.match(path)
    if subscript:
        where, key = subscript.groups()
        held = pod.metadata.labels if where.endswith("labels") else pod.metadata.annotations
        return held.get(key, "")
    match path:
        case "metadata.name":
            return pod.metadata.name
        case "metadata.namespace":
            return pod.metadata.namespace
        case "metadata.uid":
            return pod.metadata.uid
        case "metadata.labels":
            return _lines(pod.metadata.labels)
        case "metadata.annotations":
            return _lines(pod.metadata.annotations)
        case "spec.nodeName":
            return pod.spec.node_name
        case "spec.serviceAccountName":
            return pod.spec.service_account_name
        case "status.hostIP":
            return pod.status.host_ip
        case "status.hostIPs":
            return ",".join(each.ip for each in pod.status.host_ips)
        case "status.podIP":
            return pod.status.pod_ip
        case "status.podIPs":
            return ",".join(each.ip for each in pod.status.pod_ips)
    raise ContainerConfigError(f"unsupported fieldPath: {path}")


def _lines(values: Mapping[str, str]) -> str:
    def quoted(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return f'"{escaped}"'

    return "\n".join(f"{key}={quoted(values[key])}" for key in sorted(values))


def resource_value(
    pod: Pod, container: str, resource: str, divisor: Quantity, allocatable: Mapping[str, Quantity]
) -> str:
    """``limits.cpu`` and its kin of a container, in units of the divisor, rounded up."""
    found = next(
        (each for each in (*pod.spec.init_containers, *pod.spec.containers) if each.name == container), None
    )
    if found is None:
        raise ContainerConfigError(f"container {container} not found")
    kind, _, name = resource.partition(".")
    amount = (found.resources.limits if kind == "limits" else found.resources.requests).get(name)
    if amount is None:
        amount = allocatable.get(name, Quantity("0")) if kind == "limits" else Quantity("0")
    if name == "cpu":
        unit = divisor.milli_value if divisor else 1000
        return str(-(-amount.milli_value // unit))
    unit = divisor.value if divisor else 1
    return str(-(-amount.value // unit))


def service_environment(
    services: Iterable[Service], addresses: Mapping[tuple[str, str], str]
) -> dict[str, str]:
    """The variables by which programs find Services, as Docker links had them.

    ``addresses`` say where a Service is reached, by namespace and name: its cluster address is none that this
    machine routes.
    """
    made: dict[str, str] = {}
    for service in services:
        host = addresses.get((service.metadata.namespace, service.metadata.name), "")
        ports = [each for each in service.spec.ports if isinstance(each.port, int)]
        if not host or not ports:
            continue
        name = service.metadata.name.upper().replace("-", "_")
        made |= {f"{name}_SERVICE_HOST": host, f"{name}_SERVICE_PORT": str(ports[0].port)}
        for port in ports:
            protocol = (port.protocol or "TCP").upper()
            if port.name:
                made[f"{name}_SERVICE_PORT_{port.name.upper().replace('-', '_')}"] = str(port.port)
            link = f"{name}_PORT_{port.port}_{protocol}"
            made |= {
                link: f"{protocol.lower()}://{host}:{port.port}",
                f"{link}_PROTO": protocol.lower(),
                f"{link}_PORT": str(port.port),
                f"{link}_ADDR": host,
            }
        first = (ports[0].protocol or "TCP").lower()
        made[f"{name}_PORT"] = f"{first}://{host}:{ports[0].port}"
    return made


def expanded(words: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """A command or its arguments with variables replaced."""
    return [expand(word, variables) for word in words]
