"""Ports of a Service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import port_errors, port_or_name
from quarterdeck.apiserver.metadata import (
    invalid_json,
    label_errors,
    qualified_name_errors,
)
from quarterdeck.wire.fielderror import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
)

_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")


def validate_ports(ports: Sequence[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name = port.get("name") or ""
        if name:
            errors += [invalid(f"{path}.name", name, text) for text in label_errors(name)]
            if name in names:
                errors.append(duplicate(f"{path}.name", name))
            names.add(name)
        elif len(ports) > 1:
            errors.append(required(f"{path}.name"))
        number = port.get("port") or 0
        errors += [invalid(f"{path}.port", number, text) for text in port_errors(number)]
        protocol = port.get("protocol") or ""
        if protocol not in _PROTOCOLS:
            where = f"{path}.protocol"
            errors.append(not_supported(where, protocol, _PROTOCOLS) if protocol else required(where))
        errors += port_or_name(port.get("targetPort"), f"{path}.targetPort")
        if (application := port.get("appProtocol")) is not None:
            found = qualified_name_errors(application)
            errors += [invalid(f"{path}.appProtocol", application, text) for text in found]
    return errors


def validate_port_uniqueness(ports: Sequence[Json]) -> list[FieldError]:
    errors: list[FieldError] = []
    node_ports: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        if port.get("nodePort"):
            key = (port.get("protocol"), port["nodePort"])
            if key in node_ports:
                errors.append(duplicate(f"spec.ports[{index}].nodePort", port["nodePort"]))
            node_ports.add(key)
    seen: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol"), port.get("port"))
        if key in seen:
            shown = {
                "Name": "",
                "Protocol": key[0],
                "AppProtocol": None,
                "Port": key[1],
                "TargetPort": 0,
                "NodePort": 0,
            }
            body = invalid_json("", shown, "").body.removesuffix(": ")
            body = body.replace("Invalid value", "Duplicate value", 1)
            errors.append(FieldError(duplicate("", "").kind, f"spec.ports[{index}]", body))
        seen.add(key)
    return errors
