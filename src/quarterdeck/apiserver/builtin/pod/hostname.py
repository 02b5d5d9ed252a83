"""What a pod is called and whom it asks for names: host names, host aliases, DNS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import underscore_subdomain_errors, validate_ip
from quarterdeck.apiserver.metadata import byte_length, subdomain_errors
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, required, too_long


def validate_host_aliases(aliases: Sequence[Json], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, alias in enumerate(aliases):
        path = f"{field}[{index}]"
        errors += validate_ip(alias.get("ip") or "", f"{path}.ip")
        for position, host in enumerate(alias.get("hostnames") or ()):
            errors += [
                invalid(f"{path}.hostnames[{position}]", host, text) for text in subdomain_errors(host)
            ]
    return errors


def validate_dns(config: Mapping[str, Any] | None, policy: str, field: str) -> list[FieldError]:
    if policy == "None":
        if config is None:
            return [required(field, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{field}.nameservers", text)]
    if config is None:
        return []
    errors: list[FieldError] = []
    servers = config.get("nameservers") or []
    if len(servers) > 3:
        errors.append(invalid(f"{field}.nameservers", servers, "must not have more than 3 nameservers"))
    for index, server in enumerate(servers):
        errors += validate_ip(server, f"{field}.nameservers[{index}]")
    searches = config.get("searches") or []
    if len(searches) > 32:
        errors.append(invalid(f"{field}.searches", searches, "must not have more than 32 search paths"))
    if byte_length(" ".join(searches)) > 2048:
        text = "must not have more than 2048 characters (including spaces) in the search list"
        errors.append(invalid(f"{field}.searches", searches, text))
    for index, search in enumerate(searches):
        if search != ".":
            name = search.removesuffix(".")
            path = f"{field}.searches[{index}]"
            errors += [invalid(path, name, text) for text in underscore_subdomain_errors(name)]
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            errors.append(required(f"{field}.options[{index}]", "must not be empty"))
    return errors


def validate_hostname_override(spec: Json, hostname: str, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.get("setHostnameAsFQDN"):
        errors.append(forbidden(field, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        errors.append(forbidden(field, "may not be specified when hostNetwork is true"))
    if byte_length(hostname) > 64:
        errors.append(too_long(field, 64))
    return errors + [invalid(field, hostname, text) for text in subdomain_errors(hostname)]
