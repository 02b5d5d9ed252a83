"""What kinds that run pods from a template share: selectors, templates, counts, roll-out values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.builtin.formats import non_negative, percent_errors
from quarterdeck.apiserver.builtin.kind import same
from quarterdeck.apiserver.builtin.pod.spec import validate_template
from quarterdeck.apiserver.builtin.pod.warning import template_warnings
from quarterdeck.apiserver.metadata import (
    IMMUTABLE,
    invalid_json,
    label_errors,
    selector_matches,
    validate_label_selector,
)
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, not_supported, required
from quarterdeck.wire.gonumber import parse_uint

_NO_MATCH: Final = "`selector` does not match template `labels`"


def shown_selector(selector: Mapping[str, Any] | None) -> Json | None:
    """A label selector as error texts show it."""
    if selector is None:
        return None
    shown: Json = {}
    if labels := selector.get("matchLabels"):
        shown["matchLabels"] = dict(sorted(labels.items()))
    if expressions := selector.get("matchExpressions"):
        shown["matchExpressions"] = expressions
    return shown


def validate_selector(selector: Mapping[str, Any] | None, field: str, kind: str) -> list[FieldError]:
    if selector is None:
        return [required(field)]
    errors = validate_label_selector(selector, field)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        text = f"empty selector is invalid for {kind}"
        errors.append(invalid_json(field, {}, text))
    return errors


def selector_changed(new: Mapping[str, Any], old: Mapping[str, Any], field: str) -> list[FieldError]:
    selector = new.get("selector")
    if same(selector, old.get("selector")):
        return []
    return [invalid_json(field, shown_selector(selector), IMMUTABLE)]


def validate_pod_template(
    spec: Mapping[str, Any], field: str, kind: str, *, refuse_bad_selector: bool = True
) -> list[FieldError]:
    """The template of a kind whose pods run for ever and are found by a selector."""
    template: Json = spec.get("template") or {}
    selector = spec.get("selector")
    if refuse_bad_selector and selector is not None and not is_usable_selector(selector):
        return [invalid_json("spec.selector", shown_selector(selector), "invalid label selector")]
    errors = validate_selected(spec.get("selector"), template, field)
    errors += validate_template(template, field)
    return errors + validate_long_running(template, field, kind)


def validate_selected(selector: Any, template: Mapping[str, Any], field: str) -> list[FieldError]:
    labels = (template.get("metadata") or {}).get("labels")
    is_empty = selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions"))
    if is_empty or (selector is not None and not is_usable_selector(selector)):
        return []
    if selector_matches(selector, labels):
        return []
    shown = dict(sorted(labels.items())) if labels else None
    return [invalid_json(f"{field}.metadata.labels", shown, _NO_MATCH)]


def is_usable_selector(selector: Mapping[str, Any]) -> bool:
    return not validate_label_selector(selector, "")


def validate_long_running(template: Mapping[str, Any], field: str, kind: str) -> list[FieldError]:
    spec: Mapping[str, Any] = template.get("spec") or {}
    errors: list[FieldError] = []
    if (policy := spec.get("restartPolicy") or "") != "Always":
        errors.append(not_supported(f"{field}.spec.restartPolicy", policy, ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden(f"{field}.spec.activeDeadlineSeconds", text))
    return errors


def int_or_percent(value: Any) -> int:
    """The number in an int-or-percentage; what is neither counts as 0."""
    if isinstance(value, str):
        return parse_uint(value.removesuffix("%"), 2**63 - 1) or 0
    return value or 0


def validate_int_or_percent(value: Any, field: str) -> list[FieldError]:
    if isinstance(value, str):
        return [invalid(field, value, text) for text in percent_errors(value)]
    return non_negative(value, field)


def validate_at_most_100_percent(value: Any, field: str) -> list[FieldError]:
    if isinstance(value, str) and not percent_errors(value) and int_or_percent(value) > 100:
        return [invalid(field, value, "must not be greater than 100%")]
    return []


def validate_counts(
    status: Mapping[str, Any],
    counts: Sequence[str],
    *,
    within: Sequence[str] = (),
    ready: str = "readyReplicas",
) -> list[FieldError]:
    """Counts of a status: none negative, those in `within` at most `replicas`, available at most ready."""
    errors: list[FieldError] = []
    for key in counts:
        if (status.get(key) or 0) < 0:
            errors += non_negative(status[key], f"status.{key}")
    replicas = status.get("replicas") or 0
    errors += [
        invalid(f"status.{key}", status.get(key) or 0, "cannot be greater than status.replicas")
        for key in within
        if (status.get(key) or 0) > replicas
    ]
    available = status.get("availableReplicas") or 0
    if "availableReplicas" in within and available > (status.get("readyReplicas") or 0):
        errors.append(invalid("status.availableReplicas", available, f"cannot be greater than {ready}"))
    return errors


def collision_count_decremented(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[FieldError]:
    before, count = old.get("collisionCount"), new.get("collisionCount")
    if before is not None and (count is None or count < before):
        return [invalid("status.collisionCount", count or 0, "cannot be decremented")]
    return []


def is_new_generation(obj: Mapping[str, Any], old: Mapping[str, Any] | None) -> bool:
    """Whether a write changed what is wanted; else nobody is warned of it again."""
    return old is None or obj["metadata"].get("generation") != old["metadata"].get("generation")


def hostname_warnings(obj: Mapping[str, Any]) -> Iterator[str]:
    """For a new object whose name ends up in the host names of its pods."""
    if texts := label_errors((obj.get("metadata") or {}).get("name") or ""):
        yield (
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising "
            f"behavior; a DNS label is recommended: [{' '.join(texts)}]"
        )


def workload_warnings(obj: Mapping[str, Any], old: Mapping[str, Any] | None, *, named: bool) -> Iterator[str]:
    """Warnings about a template and, for kinds whose name ends up in host names, about the name."""
    if not is_new_generation(obj, old):
        return
    if named and old is None:
        yield from hostname_warnings(obj)
    template = (obj.get("spec") or {}).get("template") or {}
    yield from template_warnings(template, "spec.template")
