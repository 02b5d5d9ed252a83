"""Validation of pod specs and pod templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import (
    MAX_INT32,
    range_error,
)
from quarterdeck.apiserver.metadata import (
    label_errors,
    qualified_name_errors,
    subdomain_errors,
    validate_annotations,
    validate_labels,
)
from quarterdeck.wire.fielderror import (
    FieldError,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)

from .annotation import MIRROR, validate_pod_annotations
from .claim import validate_claims
from .container import validate_containers, validate_ephemeral_containers, validate_init_containers
from .hostname import validate_dns, validate_host_aliases, validate_hostname_override
from .placement import validate_affinity, validate_gates, validate_spread, validate_tolerations
from .resources import validate_pod_level, validate_requirements
from .scope import ContainerScope
from .security import validate_pod_context
from .volume import validate_volumes

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_NO_META: Final[Mapping[str, Any]] = {}


def validate_pod_spec(
    spec: Json, field: str, *, meta: Mapping[str, Any] = _NO_META, is_pod: bool = False
) -> list[FieldError]:
    """A defaulted spec; `meta` is the pod's own metadata, empty for a template. In upstream's order."""
    get = spec.get
    errors = _validate_contents(spec, field, meta, is_pod=is_pod)
    if get("hostNetwork"):
        errors += _validate_host_ports(get("containers") or (), f"{field}.containers", is_pod=is_pod)
    for key, allowed in (("restartPolicy", _RESTART_POLICIES), ("dnsPolicy", _DNS_POLICIES)):
        if (policy := get(key)) not in allowed:
            path = f"{field}.{key}"
            errors.append(not_supported(path, policy, allowed) if policy else required(path))
    if selector := get("nodeSelector"):
        errors += validate_labels(selector, f"{field}.nodeSelector")
    context = get("securityContext")
    if context or get("shareProcessNamespace"):
        errors += validate_pod_context(context or {}, spec, f"{field}.securityContext")
    if affinity := get("affinity"):
        errors += validate_affinity(affinity, f"{field}.affinity")
    policy = get("dnsPolicy") or ""
    if get("dnsConfig") is not None or policy == "None":
        errors += validate_dns(get("dnsConfig"), policy, f"{field}.dnsConfig")
    if gates := get("readinessGates"):
        errors += _validate_readiness_gates(gates, f"{field}.readinessGates")
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
        errors += validate_hostname_override(spec, hostname, f"{field}.hostnameOverride")
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
    if aliases := get("hostAliases"):
        errors += validate_host_aliases(aliases, f"{field}.hostAliases")
    errors += _validate_classes(spec, field)
    if (overhead := get("overhead")) is not None:
        errors += validate_requirements({"limits": overhead}, f"{field}.overhead")
    if (system := get("os")) is not None:
        errors += _validate_os(system, spec, field)
    errors += _validate_file_refs(spec, field)
    return errors


def _validate_contents(spec: Json, field: str, meta: Mapping[str, Any], *, is_pod: bool) -> list[FieldError]:
    """What a pod is made of: volumes, claims, containers and their resources."""
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
        is_mirror = MIRROR in (meta.get("annotations") or ())
        errors += validate_claims(claims, f"{field}.resourceClaims", is_mirror=is_mirror)
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


def _validate_readiness_gates(gates: Sequence[Json], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, gate in enumerate(gates):
        condition = gate.get("conditionType") or ""
        errors += [
            invalid(f"{field}[{index}].conditionType", condition, text)
            for text in qualified_name_errors(condition)
        ]
    return errors


def _validate_classes(spec: Json, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in ("priorityClassName", "runtimeClassName"):
        name = spec.get(key)
        if name or (name is not None and key == "runtimeClassName"):
            errors += [invalid(f"{field}.{key}", name, text) for text in subdomain_errors(name)]
    if (policy := spec.get("preemptionPolicy")) is not None and policy not in _PREEMPTION_POLICIES:
        path = f"{field}.preemptionPolicy"
        errors.append(not_supported(path, policy, _PREEMPTION_POLICIES) if policy else required(path))
    return errors


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
    volumes: dict[str, Json] | None = None  # few pods have such references
    for key in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            for position, variable in enumerate(container.get("env") or ()):
                reference = (variable.get("valueFrom") or _NO_META).get("fileKeyRef")
                if reference is None:
                    continue
                path = f"{field}.{key}[{index}].env[{position}].valueFrom.fileKeyRef.volumeName"
                name = reference.get("volumeName") or ""
                if volumes is None:  # of two with the same name the first counts
                    volumes = {item.get("name"): item for item in reversed(spec.get("volumes") or ())}
                volume = volumes.get(name)
                if volume is None:
                    errors.append(not_found(path, name))
                elif volume.get("emptyDir") is None:
                    errors.append(invalid(path, name, "referenced volume must be of type emptyDir"))
    return errors


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
