"""The rules of one clique."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from quarterdeck.api import UnsetType
from quarterdeck.api.k8s import Container, PodSpec
from quarterdeck.api.label import check_dns1123_subdomain, check_label_value, check_qualified_name
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import CliqueTemplate, PodCliqueSet, PodCliqueSpec
from quarterdeck.wire.fielderror import FieldError, duplicate, invalid, required, too_long

from .sharing import check_sharing

_VARIABLE: Final = "[-._a-zA-Z][-._a-zA-Z0-9]*"
_VARIABLE_TEXT: Final = (
    "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', and "
    "must not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used for "
    f"validation is '{_VARIABLE}')"
)
_ANNOTATION_BYTES: Final = 256 * 1024


def check_clique(
    clique: CliqueTemplate,
    path: str,
    *,
    pcs: PodCliqueSet,
    is_standalone: bool,
    is_new: bool,
    is_spread: bool = False,
) -> list[FieldError]:
    """What is wrong with a clique; ``is_spread``: its pods say how they are spread, be it by nothing."""
    template = pcs.spec.template
    errors = _check_name(clique.name, path, pcs.metadata.name, is_standalone=is_standalone)
    errors += _check_labels(clique.labels, f"{path}.labels")
    errors += _check_annotations(clique.annotations, f"{path}.annotations")
    errors += check_sharing(clique.resource_sharing, f"{path}.resourceSharing", template)
    errors += _check_replicas(clique.spec, f"{path}.spec")
    if template.clique_startup_type == names.EXPLICIT:
        errors += _check_starts_after(clique, f"{path}.spec.startsAfter")
    errors += _check_scaling(clique.spec, f"{path}.spec")
    pods, at = clique.spec.pod_spec, f"{path}.spec.podSpec.spec"
    if is_new and (is_spread or pods.topology_spread_constraints):
        given = pods.topology_spread_constraints
        errors.append(invalid(f"{at}.topologySpreadConstraints", given, "must not be set"))
    errors += _check_pods(pods, at, is_new=is_new)
    return errors


def _check_name(name: str, path: str, set_name: str, *, is_standalone: bool) -> list[FieldError]:
    if not name:
        return [required(f"{path}.name", "field cannot be empty")]
    errors: list[FieldError] = []
    if check_dns1123_subdomain(name):
        text = "invalid PodCliqueTemplateSpec name, must be a valid DNS subdomain"
        errors.append(invalid(f"{path}.name", name, text))
    length = len(set_name) + len(name)
    if is_standalone and length > names.MAX_NAMES:
        text = (
            f"combined resource name length {length} exceeds {names.MAX_NAMES}-character limit required for "
            f"pod naming. Consider shortening: PodCliqueSet '{set_name}' or PodClique '{name}'"
        )
        errors.append(invalid(f"{path}.name", name, text))
        errors.append(invalid("metadata.name", set_name, text))
    return errors


def _check_labels(labels: Mapping[str, str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key, value in labels.items():
        errors += [invalid(path, key, text) for text in check_qualified_name(key)]
        errors += [invalid(path, value, text) for text in check_label_value(value)]
    return errors


def _check_annotations(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    errors = [invalid(path, key, text) for key in annotations for text in check_qualified_name(key.lower())]
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _ANNOTATION_BYTES:
        errors.append(too_long(path, _ANNOTATION_BYTES))
    return errors


def _check_replicas(spec: PodCliqueSpec, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.replicas <= 0:
        errors.append(invalid(f"{path}.replicas", spec.replicas, "must be greater than 0"))
    least = spec.min_available
    at = f"{path}.minAvailable"
    if isinstance(least, UnsetType):
        return [*errors, required(at, "field is required")]
    if least <= 0:
        errors.append(invalid(at, least, "must be greater than 0"))
    if least > spec.replicas:
        errors.append(invalid(at, least, "minAvailable must not be greater than replicas"))
    return errors


def _check_starts_after(clique: CliqueTemplate, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    parents = clique.spec.starts_after
    for parent in parents:
        if not parent.strip():
            errors.append(required(path, "clique dependency must not be empty"))
        elif parent == clique.name:
            errors.append(invalid(path, parent, "clique dependency cannot refer to itself"))
    twice = [parent for parent, count in Counter(parents).items() if count > 1]
    if twice:
        errors.append(duplicate(path, twice))
    return errors


def _check_scaling(spec: PodCliqueSpec, path: str) -> list[FieldError]:
    scaling = spec.auto_scaling_config
    if isinstance(scaling, UnsetType):
        return []
    path = f"{path}.autoScalingConfig"
    errors: list[FieldError] = []
    low, high = scaling.min_replicas, scaling.max_replicas
    if isinstance(low, UnsetType):
        errors.append(required(f"{path}.minReplicas", "field is required"))
    else:
        if not isinstance(spec.min_available, UnsetType) and low < spec.min_available:
            text = "must be greater than or equal to podCliqueSpec.minAvailable"
            errors.append(invalid(f"{path}.minReplicas", low, text))
        if high < low:
            text = "must be greater than or equal to podCliqueSpec.minReplicas"
            errors.append(invalid(f"{path}.maxReplicas", high, text))
    if high < spec.replicas:
        errors.append(invalid(f"{path}.maxReplicas", high, "must be greater than or equal to replicas"))
    return errors


def _check_pods(pods: PodSpec, path: str, *, is_new: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if is_new and pods.node_name:
        errors.append(invalid(f"{path}.nodeName", pods.node_name, "must not be set"))
    errors += _check_variables(pods.containers, f"{path}.containers")
    errors += _check_variables(pods.init_containers, f"{path}.initContainers")
    return errors


def _check_variables(containers: Sequence[Container], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for place, container in enumerate(containers):
        at = f"{path}[{place}].env"
        for index, variable in enumerate(container.env):
            if problems := _check_variable(variable.name):
                errors.append(invalid(f"{at}[{index}].name", variable.name, "; ".join(problems)))
        twice = [name for name, count in Counter(each.name for each in container.env).items() if count > 1]
        if twice:
            errors.append(duplicate(at, twice))
    return errors


def _check_variable(name: str) -> list[str]:
    errors = [] if re.fullmatch(_VARIABLE, name) else [_VARIABLE_TEXT]
    if name == ".":
        errors.append("must not be '.'")
    elif name.startswith(".."):
        errors.append("must not be '..'" if name == ".." else "must not start with '..'")
    return errors
