"""NetworkPolicy: defaults and validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import (
    port_errors,
    port_name_errors,
)
from quarterdeck.apiserver.builtin.kind import BuiltinStrategy, section
from quarterdeck.apiserver.metadata import (
    invalid_json,
    validate_label_selector,
)
from quarterdeck.apiserver.resource.strategy import WriteContext
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, not_supported, required

from .cidr import parse_cidr, validate_cidr


class NetworkPolicyStrategy(BuiltinStrategy):
    has_generation = True

    def default(self, obj: Json) -> None:
        spec = section(obj, "spec")
        section(spec, "podSelector")
        for key in ("ingress", "egress"):
            for rule in spec.get(key) or ():
                for port in rule.get("ports") or ():
                    if port.get("protocol") is None:
                        port["protocol"] = "TCP"
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def validate_create(self, obj: Json, ctx: WriteContext) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = validate_label_selector(spec.get("podSelector"), "spec.podSelector")
        for key, side in (("ingress", "from"), ("egress", "to")):
            for index, rule in enumerate(spec.get(key) or ()):
                path = f"spec.{key}[{index}]"
                for position, port in enumerate(rule.get("ports") or ()):
                    errors += _validate_policy_port(port, f"{path}.ports[{position}]")
                for position, peer in enumerate(rule.get(side) or ()):
                    errors += _validate_peer(peer, f"{path}.{side}[{position}]")
        types: Sequence[str] = spec.get("policyTypes") or ()
        if len(types) > 2:
            text = "may not specify more than two policyTypes"
            return [*errors, invalid_json("spec.policyTypes", list(types), text)]
        errors += [
            not_supported(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress"))
            for index, kind in enumerate(types)
            if kind not in ("Ingress", "Egress")
        ]
        return errors

    def validate_update(self, obj: Json, old: Json, ctx: WriteContext) -> list[FieldError]:
        return self.validate_create(obj, ctx)


def _validate_policy_port(port: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    protocol = port.get("protocol")
    if protocol is not None and protocol not in ("TCP", "UDP", "SCTP"):
        errors.append(not_supported(f"{field}.protocol", protocol, ("TCP", "UDP", "SCTP")))
    number, end = port.get("port"), port.get("endPort")
    if number is None:
        if end is not None:
            text = "may not be specified when `port` is not specified"
            errors.append(invalid(f"{field}.endPort", end, text))
    elif isinstance(number, str):
        if end is not None:
            text = "may not be specified when `port` is non-numeric"
            errors.append(invalid(f"{field}.endPort", end, text))
        errors += [invalid(f"{field}.port", number, text) for text in port_name_errors(number)]
    else:
        errors += [invalid(f"{field}.port", number, text) for text in port_errors(number)]
        if end is not None:
            if end < number:
                text = "must be greater than or equal to `port`"
                errors.append(invalid(f"{field}.endPort", number, text))
            errors += [invalid(f"{field}.endPort", end, text) for text in port_errors(end)]
    return errors


def _validate_peer(peer: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    count = 0
    for key in ("podSelector", "namespaceSelector"):
        if peer.get(key) is not None:
            count += 1
            errors += validate_label_selector(peer[key], f"{field}.{key}")
    block = peer.get("ipBlock")
    if block is not None:
        count += 1
        errors += _validate_block(block, f"{field}.ipBlock")
    if count == 0:
        errors.append(required(field, "must specify a peer"))
    elif count > 1 and block is not None:
        errors.append(forbidden(field, "may not specify both ipBlock and another peer"))
    return errors


def _validate_block(block: Mapping[str, Any], field: str) -> list[FieldError]:
    cidr = block.get("cidr") or ""
    if not cidr:
        return [required(f"{field}.cidr")]
    errors = validate_cidr(cidr, f"{field}.cidr")
    network = parse_cidr(cidr)
    if network is None:
        return errors
    for index, item in enumerate(block.get("except") or ()):
        path = f"{field}.except[{index}]"
        errors += validate_cidr(item, path)
        inner = parse_cidr(item)
        if inner is not None and (
            inner.version != network.version
            or inner.network_address not in network
            or inner.prefixlen <= network.prefixlen
        ):
            errors.append(invalid(path, item, "must be a strict subset of `cidr`"))
    return errors
