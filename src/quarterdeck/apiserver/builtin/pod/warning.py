"""Warnings about pods that are accepted but likely not what was meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from quarterdeck.api.quantity import split_text
from quarterdeck.apiserver.builtin.formats import ip_warnings
from quarterdeck.apiserver.document.quantity import is_quick, parse
from quarterdeck.apiserver.metadata import label_errors, label_value_errors
from quarterdeck.wire.gostyle import quote

from .portwarning import port_warnings

Document = Mapping[str, Any]

_OLD_NODE_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
}
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_SYSCTLS: Final = 'non-functional in v1.11+; use the "sysctls" field instead'
_OLD_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": _SYSCTLS,
    "security.alpha.kubernetes.io/unsafe-sysctls": _SYSCTLS,
}
_OLD_VOLUMES: Final = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_SHOWN_VOLUMES: Final = {"storageos": "storageOS"}
_SECCOMP: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
_APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_NO_POD: Final = "a null labelSelector results in matching no pod"


def pod_warnings(pod: Document) -> Iterator[str]:
    """For a new pod."""
    meta: Document = pod.get("metadata") or {}
    if texts := label_errors(meta.get("name") or ""):
        shown = " ".join(texts)
        yield (
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
            f"a DNS label is recommended: [{shown}]"
        )
    yield from template_warnings(pod, "")


def template_warnings(template: Document, field: str) -> Iterator[str]:
    """For a pod (`field` is empty) or a pod template."""
    spec: Document = template.get("spec") or {}
    annotations: Document = (template.get("metadata") or {}).get("annotations") or {}
    prefix = f"{field}." if field else ""
    path = f"{prefix}spec"
    for key in spec.get("nodeSelector") or ():
        if key in _OLD_NODE_LABELS:
            yield f"{path}.nodeSelector[{key}]: {_OLD_NODE_LABELS[key]}"
    affinity: Document = spec.get("affinity") or {}
    if affinity:
        yield from _node_affinity(affinity.get("nodeAffinity") or {}, f"{path}.affinity.nodeAffinity")
    yield from _spread(spec.get("topologySpreadConstraints") or (), path)
    for key, text in _OLD_ANNOTATIONS.items():
        if key in annotations:
            yield f"{prefix}metadata.annotations[{key}]: {text}"
    yield from _volumes(spec.get("volumes") or (), path)
    yield from _repeated(spec, path)
    yield from _fractions(spec.get("overhead") or {}, f"{path}.overhead")
    if annotations:
        yield from _security(spec, annotations, prefix)
    yield from _containers(spec, path)
    if (grace := spec.get("terminationGracePeriodSeconds")) is not None and grace < 0:
        yield (
            f"{path}.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and "
            "will be treated as 1"
        )
    for kind in ("podAffinity", "podAntiAffinity") if affinity else ():
        yield from _pod_affinity(affinity.get(kind) or {}, f"{path}.affinity.{kind}")
    yield from _addresses(spec, path)


def _node_affinity(affinity: Document, path: str) -> Iterator[str]:
    terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    for index, term in enumerate(terms):
        yield from _node_term(term, f"{path}.{_REQUIRED}.nodeSelectorTerms[{index}]", checks_values=False)
    for index, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        where = f"{path}.{_PREFERRED}[{index}].preference"
        yield from _node_term(weighted.get("preference") or {}, where, checks_values=True)


def _node_term(term: Document, path: str, *, checks_values: bool) -> Iterator[str]:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        where, key = f"{path}.matchExpressions[{index}]", expression.get("key") or ""
        if key in _OLD_NODE_LABELS:
            yield f"{where}.key: {key} is {_OLD_NODE_LABELS[key]}"
        for position, value in enumerate(expression.get("values") or ()) if checks_values else ():
            for text in label_value_errors(value):
                yield f"{where}.values[{position}]: {value} is invalid, {text}"


def _spread(constraints: Sequence[Document], path: str) -> Iterator[str]:
    for index, constraint in enumerate(constraints):
        where, key = f"{path}.topologySpreadConstraints[{index}]", constraint.get("topologyKey") or ""
        if key in _OLD_NODE_LABELS:
            yield f"{where}.topologyKey: {key} is {_OLD_NODE_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{where}.labelSelector: {_NO_POD}"


def _volumes(volumes: Sequence[Document], path: str) -> Iterator[str]:
    for index, volume in enumerate(volumes):
        for key in volume:
            if key in _OLD_VOLUMES:
                yield f"{path}.volumes[{index}].{_SHOWN_VOLUMES.get(key, key)}: {_OLD_VOLUMES[key]}"


def _repeated(spec: Document, path: str) -> Iterator[str]:
    for name, key in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        seen: set[str] = set()
        for index, item in enumerate(spec.get(name) or ()):
            value = item.get(key) or ""
            if value in seen:
                yield f"{path}.{name}[{index}].{key}: duplicate {key} {quote(value)}"
            seen.add(value)
    for index, item in enumerate(spec.get("imagePullSecrets") or ()):
        if not item.get("name"):
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'


def claim_warnings(claim: Document) -> Iterator[str]:
    """What is odd about a PersistentVolumeClaim."""
    annotations = claim["metadata"].get("annotations") or {}
    if _CLASS_ANNOTATION in annotations:
        yield (
            f"metadata.annotations[{_CLASS_ANNOTATION}]: deprecated since v1.8; "
            'use "storageClassName" attribute instead'
        )
    resources = (claim.get("spec") or {}).get("resources") or {}
    for key in ("requests", "limits"):
        yield from _fractions(resources.get(key) or {}, f"spec.resources.{key}", ("storage",))


def _fractions(
    resources: Document, path: str, names: Sequence[str] = ("memory", "ephemeral-storage")
) -> Iterator[str]:
    for name in names:
        if name in resources and _is_fraction(resources[name]):
            shown = quote(resources[name])
            yield f"{path}[{name}]: fractional byte value {shown} is invalid, must be an integer"


def _is_fraction(quantity: str) -> bool:
    """By thousandths in 64 bits, as upstream counts: a huge amount may overflow into a fraction."""
    milli = parse(quantity).milli
    if milli >= 2**63:
        milli = 0 if is_quick(split_text(quantity.strip())) else (milli + 2**63) % 2**64 - 2**63
    return abs(milli) % 1000 != 0


def _security(spec: Document, annotations: Document, prefix: str) -> Iterator[str]:
    context: Document = spec.get("securityContext") or {}
    path = f"{prefix}metadata.annotations"
    if not context.get("seccompProfile") and _SECCOMP_POD in annotations:
        yield f"{path}[{_SECCOMP_POD}]: {_SECCOMP}"
    for _, container in _each_container(spec, ""):
        own: Document = container.get("securityContext") or {}
        key = _SECCOMP_CONTAINER + container["name"]
        if not own.get("seccompProfile") and key in annotations:
            yield f"{path}[{key}]: {_SECCOMP}"
        key = _APP_ARMOR + container["name"]
        fields = own.get("appArmorProfile") or context.get("appArmorProfile")
        if prefix and not fields and key in annotations:
            yield f'{path}[{key}]: deprecated since v1.30; use the "appArmorProfile" field instead'


def _each_container(spec: Document, path: str) -> Iterator[tuple[str, Document]]:
    for key in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(key) or ()):
            yield f"{path}.{key}[{index}]", container


def _containers(spec: Document, path: str) -> Iterator[str]:
    with_ports: list[tuple[str, Document]] = []
    for where, container in _each_container(spec, path):
        resources: Document = container.get("resources") or {}
        if resources:
            by_name = {key: resources.get(key) or {} for key in ("limits", "requests")}
            for name in ("memory", "ephemeral-storage"):
                for key, amounts in by_name.items():
                    if name in amounts:
                        yield from _fractions({name: amounts[name]}, f"{where}.resources.{key}")
        if len(container.get("env") or ()) > 1:
            yield from _hidden_variables(container["env"], where)
        with_ports += [
            (f"{where}.ports[{index}]", port) for index, port in enumerate(container.get("ports") or ())
        ]
    if with_ports:
        yield from port_warnings(with_ports)


def _hidden_variables(variables: Sequence[Document], path: str) -> Iterator[str]:
    """A name given twice, unless the later one builds on the earlier."""
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name, value = variable.get("name") or "", variable.get("value") or ""
        reference = f"$({name})"
        builds = not variable.get("valueFrom") and reference in value and value != reference
        if name in seen and not builds:
            yield (
                f"{path}.env[{index}]: hides previous definition of {quote(name)}, "
                "which may be dropped when using apply"
            )
        seen.add(name)


def _pod_affinity(affinity: Document, path: str) -> Iterator[str]:
    for index, term in enumerate(affinity.get(_REQUIRED) or ()):
        if term.get("labelSelector") is None:
            yield f"{path}.{_REQUIRED}[{index}].labelSelector: {_NO_POD}"
    for index, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        if (weighted.get("podAffinityTerm") or {}).get("labelSelector") is None:
            yield f"{path}.{_PREFERRED}[{index}].podAffinityTerm.labelSelector: {_NO_POD}"


def _addresses(spec: Document, path: str) -> Iterator[str]:
    for index, server in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        yield from ip_warnings(server, f"{path}.dnsConfig.nameservers[{index}]")
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from ip_warnings(alias.get("ip") or "", f"{path}.hostAliases[{index}].ip")
