"""Validation of pod specs and pod templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.apiserver.builtin.formats import (
    MAX_INT32,
    range_error,
    underscore_subdomain_errors,
    validate_ip,
)
from quarterdeck.apiserver.metadata import (
    byte_length,
    invalid_json,
    label_errors,
    qualified_name_errors,
    subdomain_errors,
    validate_annotations,
    validate_labels,
)
from quarterdeck.apiserver.resource.strategy import Json
from quarterdeck.wire.fielderror import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_long,
)

from .container import validate_containers, validate_ephemeral_containers, validate_init_containers
from .placement import validate_affinity, validate_gates, validate_spread, validate_tolerations
from .resources import validate_pod_level, validate_requirements
from .scope import ContainerScope
from .security import validate_pod_context
from .volume import validate_volumes

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
MIRROR: Final = "kubernetes.io/config.mirror"
_NO_META: Final[Mapping[str, Any]] = {}


def validate_pod_spec(
    spec: Json, field: str, *, meta: Mapping[str, Any] = _NO_META, is_pod: bool = False
) -> list[FieldError]:
    """A defaulted spec; `meta` is the pod's own metadata, empty for a template."""
    get = spec.get
    errors: list[FieldError] = []
    if get("terminationGracePeriodSeconds") is None:
        errors.append(required(f"{field}.terminationGracePeriodSeconds"))
    volumes: dict[str, Json] = {}
    if listed := get("volumes"):
        name = meta.get("name") or ""
        volumes, found = validate_volumes(listed, name, f"{field}.volumes", is_pod=is_pod)
        errors += found
    if claims := get("resourceClaims"):
        errors += _validate_claims(claims, meta, f"{field}.resourceClaims")
    scope = ContainerScope(spec, volumes)
    containers: Sequence[Json] = get("containers") or ()
    errors += validate_containers(containers, scope, f"{field}.containers")
    initial: Sequence[Json] = get("initContainers") or ()
    if initial:
        errors += validate_init_containers(initial, containers, scope, f"{field}.initContainers")
    if ephemeral := get("ephemeralContainers"):
        path = f"{field}.ephemeralContainers"
        errors += validate_ephemeral_containers(ephemeral, [*containers, *initial], scope, path)
    if get("resources") is not None:
        errors += validate_pod_level(spec, field, claim_names=scope.claim_names)
    if get("hostNetwork"):
        errors += _validate_host_ports(containers, f"{field}.containers", is_pod=is_pod)
    if (policy := get("restartPolicy")) not in _RESTART_POLICIES:
        path = f"{field}.restartPolicy"
        errors.append(not_supported(path, policy, _RESTART_POLICIES) if policy else required(path))
    if (policy := get("dnsPolicy")) not in _DNS_POLICIES:
        path = f"{field}.dnsPolicy"
        errors.append(not_supported(path, policy, _DNS_POLICIES) if policy else required(path))
    if selector := get("nodeSelector"):
        errors += validate_labels(selector, f"{field}.nodeSelector")
    context = get("securityContext")
    if context or get("shareProcessNamespace"):
        errors += validate_pod_context(context or {}, spec, f"{field}.securityContext")
    if affinity := get("affinity"):
        errors += validate_affinity(affinity, f"{field}.affinity")
    if get("dnsConfig") is not None or policy == "None":
        errors += _validate_dns(get("dnsConfig"), policy or "", f"{field}.dnsConfig")
    for index, gate in enumerate(get("readinessGates") or ()):
        condition = gate.get("conditionType") or ""
        if found_texts := qualified_name_errors(condition):
            path = f"{field}.readinessGates[{index}].conditionType"
            errors += [invalid(path, condition, text) for text in found_texts]
    if gates := get("schedulingGates"):
        errors += validate_gates(gates, f"{field}.schedulingGates")
    if constraints := get("topologySpreadConstraints"):
        errors += validate_spread(constraints, f"{field}.topologySpreadConstraints")
    if get("hostUsers") is False:
        errors += [
            forbidden(f"{field}.{shown}", "when `hostUsers` is false")
            for key, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
            if get(key)
        ]
    if (hostname := get("hostnameOverride")) is not None:
        errors += _validate_hostname_override(spec, hostname, f"{field}.hostnameOverride")
    for key in ("serviceAccountName", "nodeName"):
        if (name := get(key)) and (texts := subdomain_errors(name)):
            errors += [invalid(f"{field}.{key}", name, text) for text in texts]
    if (deadline := get("activeDeadlineSeconds")) is not None and not 1 <= deadline <= MAX_INT32:
        errors.append(invalid(f"{field}.activeDeadlineSeconds", deadline, range_error(1, MAX_INT32)))
    for key in ("hostname", "subdomain"):
        if (name := get(key)) and (texts := label_errors(name)):
            errors += [invalid(f"{field}.{key}", name, text) for text in texts]
    if tolerations := get("tolerations"):
        errors += validate_tolerations(tolerations, f"{field}.tolerations")
    for index, alias in enumerate(get("hostAliases") or ()):
        path = f"{field}.hostAliases[{index}]"
        errors += validate_ip(alias.get("ip") or "", f"{path}.ip")
        for position, host in enumerate(alias.get("hostnames") or ()):
            errors += [
                invalid(f"{path}.hostnames[{position}]", host, text) for text in subdomain_errors(host)
            ]
    for key in ("priorityClassName", "runtimeClassName"):
        name = get(key)
        if name or (name is not None and key == "runtimeClassName"):
            errors += [invalid(f"{field}.{key}", name, text) for text in subdomain_errors(name)]
    if (policy := get("preemptionPolicy")) is not None and policy not in _PREEMPTION_POLICIES:
        path = f"{field}.preemptionPolicy"
        errors.append(not_supported(path, policy, _PREEMPTION_POLICIES) if policy else required(path))
    if (overhead := get("overhead")) is not None:
        errors += validate_requirements({"limits": overhead}, f"{field}.overhead")
    if (system := get("os")) is not None:
        errors += _validate_os(system, spec, field)
    errors += _validate_file_refs(spec, field)
    return errors


def _validate_claims(claims: Sequence[Json], meta: Mapping[str, Any], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    mirrored = MIRROR in (meta.get("annotations") or ())
    for index, claim in enumerate(claims):
        if mirrored:
            errors.append(forbidden("", "static pods do not support resource claims"))
            continue
        path = f"{field}[{index}]"
        name = claim.get("name") or ""
        if not name:
            errors.append(required(f"{path}.name"))
        elif name in names:
            errors.append(duplicate(f"{path}.name", name))
        else:
            errors += [invalid(f"{path}.name", name, text) for text in label_errors(name)]
            names.add(name)
        direct, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
        shown = {"Name": name, "ResourceClaimName": direct, "ResourceClaimTemplateName": template}
        if direct is not None and template is not None:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(invalid_json(path, shown, text))
        if direct is None and template is None:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(invalid_json(path, shown, text))
        for key in ("resourceClaimName", "resourceClaimTemplateName"):
            if (value := claim.get(key)) is not None:
                errors += [invalid(f"{path}.{key}", value, text) for text in subdomain_errors(value)]
    return errors


def _validate_host_ports(containers: Sequence[Json], field: str, *, is_pod: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if (is_pod or host) and host != (port.get("containerPort") or 0):
                text = "must match `containerPort` when `hostNetwork` is true"
                errors.append(invalid(f"{field}[{index}].ports[{position}].hostPort", host, text))
    return errors


def _validate_dns(config: Mapping[str, Any] | None, policy: str, field: str) -> list[FieldError]:
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


def _validate_hostname_override(spec: Json, hostname: str, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.get("setHostnameAsFQDN"):
        errors.append(forbidden(field, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        errors.append(forbidden(field, "may not be specified when hostNetwork is true"))
    if byte_length(hostname) > 64:
        errors.append(too_long(field, 64))
    return errors + [invalid(field, hostname, text) for text in subdomain_errors(hostname)]


def _validate_os(system: Mapping[str, Any], spec: Json, field: str) -> list[FieldError]:
    name = system.get("name") or ""
    if not name:
        return [required(f"{field}.os.name")]
    if name not in ("linux", "windows"):
        return [not_supported(f"{field}.os", name, ("linux", "windows"))]
    if name != "linux":
        return []
    text = "windows options cannot be set for a linux pod"
    errors: list[FieldError] = []
    if (spec.get("securityContext") or {}).get("windowsOptions") is not None:
        errors.append(forbidden(f"{field}.securityContext.windowsOptions", text))
    for key in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            if (container.get("securityContext") or {}).get("windowsOptions") is not None:
                errors.append(forbidden(f"{field}.{key}[{index}].securityContext.windowsOptions", text))
    return errors


def _validate_file_refs(spec: Json, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            for position, variable in enumerate(container.get("env") or ()):
                reference = (variable.get("valueFrom") or _NO_META).get("fileKeyRef")
                if reference is None:
                    continue
                path = f"{field}.{key}[{index}].env[{position}].valueFrom.fileKeyRef.volumeName"
                name = reference.get("volumeName") or ""
                volume = next((item for item in spec.get("volumes") or () if item.get("name") == name), None)
                if volume is None:
                    errors.append(not_found(path, name))
                elif volume.get("emptyDir") is None:
                    errors.append(invalid(path, name, "referenced volume must be of type emptyDir"))
    return errors


def validate_pod_annotations(
    annotations: Mapping[str, str], spec: Mapping[str, Any], field: str
) -> list[FieldError]:
    """Annotations that mean something to pods."""
    errors: list[FieldError] = []
    if MIRROR in annotations and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{field}[{MIRROR}]", annotations[MIRROR], text))
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not _is_int32(cost):
        errors.append(invalid(f"{field}[{_DELETION_COST}]", cost, "must be a 32bit integer"))
    return errors


def _is_int32(text: str) -> bool:
    digits = text[1:] if text.startswith("-") else text
    if not (digits.isdecimal() and digits.isascii()) or (len(digits) > 1 and digits[0] == "0"):
        return False
    return -(2**31) <= int(text) <= MAX_INT32


def validate_template(template: Mapping[str, Any], field: str) -> list[FieldError]:
    """A pod template of a workload."""
    meta: Mapping[str, Any] = template.get("metadata") or {}
    spec: Json = template.get("spec") or {}
    errors: list[FieldError] = []
    if labels := meta.get("labels"):
        errors += validate_labels(labels, f"{field}.labels")
    if annotations := meta.get("annotations"):
        errors += validate_annotations(annotations, f"{field}.annotations")
        errors += validate_pod_annotations(annotations, spec, f"{field}.annotations")
    errors += validate_pod_spec(spec, f"{field}.spec")
    if spec.get("ephemeralContainers"):
        path = f"{field}.spec.ephemeralContainers"
        errors.append(forbidden(path, "ephemeral containers not allowed in pod template"))
    return errors
