"""The admission plugin PodSecurity.

Pods are refused by the enforced level; what makes pods is warned about only. A namespace that gets a
stricter level is told which of its pods would not be let in again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.admission.attributes import Attributes, labels_of
from quarterdeck.apiserver.admission.plugin.base import CREATE, UPDATE, Plugin, keys, spec_of
from quarterdeck.wire import gostyle

from .catalog import detail_of, reason_of, violations
from .configuration import PodSecurityConfiguration
from .level import PREFIX, PRIVILEGED, LevelVersion, Policy, policy_of

_TEMPLATES: Final = (
    keys("", ("podtemplates", "replicationcontrollers"), (CREATE, UPDATE))
    | keys("apps", ("replicasets", "deployments", "statefulsets", "daemonsets"), (CREATE, UPDATE))
    | keys("batch", ("jobs", "cronjobs"), (CREATE, UPDATE))
)
_MAX_PODS: Final = 3000
_MAX_SECONDS: Final = 1.0


class PodSecurity(Plugin):
    """Holds pods to the level their namespace's labels name."""

    name = "PodSecurity"
    validates = (
        keys("", ("namespaces",), (CREATE, UPDATE))
        | keys("", ("pods",), (CREATE, UPDATE))
        | keys("", ("pods/ephemeralcontainers", "pods/resize"), (UPDATE,))
        | _TEMPLATES
    )

    def __init__(self, configuration: PodSecurityConfiguration | None = None) -> None:
        configured = configuration or PodSecurityConfiguration()
        self._exempt = configured.exemptions
        self._defaults = configured.policy()

    def validate(self, attributes: Attributes) -> None:
        if attributes.is_namespace:
            self._check_namespace(attributes)
        elif attributes.resource == "pods" and not attributes.group:
            self._check_pod(attributes)
        else:
            self._check_template(attributes)

    def _check_pod(self, attributes: Attributes) -> None:
        policy = self._policy(attributes)
        if policy is None or policy.is_privileged:
            return
        pod, old = attributes.object or {}, attributes.old_object
        if attributes.operation == UPDATE and old is not None and not _matters(spec_of(pod), spec_of(old)):
            return
        self._evaluate(attributes, policy, pod.get("metadata") or {}, spec_of(pod), enforce=True)

    def _check_template(self, attributes: Attributes) -> None:
        policy = self._policy(attributes)
        if policy is None or policy.warn.level == policy.audit.level == PRIVILEGED:
            return
        template = _template(attributes.object or {}, attributes.resource)
        if template is not None:
            self._evaluate(
                attributes, policy, template.get("metadata") or {}, spec_of(template), enforce=False
            )

    def _policy(self, attributes: Attributes) -> Policy | None:
        """What the namespace demands; None where the request is exempt."""
        exempt = self._exempt
        if attributes.namespace in exempt.namespaces or attributes.user.name in exempt.usernames:
            return None
        namespace = attributes.context.cluster.get("", "namespaces", "", attributes.namespace)
        return policy_of(labels_of(namespace), self._defaults)[0]

    def _evaluate(
        self, attributes: Attributes, policy: Policy, metadata: Json, spec: Json, *, enforce: bool
    ) -> None:
        if spec.get("runtimeClassName") in self._exempt.runtime_classes:
            return
        if enforce and (found := violations(policy.enforce, metadata, spec)):
            raise status.forbidden(
                attributes.resource,
                attributes.group,
                attributes.name,
                f"violates PodSecurity {gostyle.quote(str(policy.enforce))}: {detail_of(found)}",
            )
        if found := violations(policy.warn, metadata, spec):
            attributes.warn(
                f"would violate PodSecurity {gostyle.quote(str(policy.warn))}: {detail_of(found)}"
            )

    def _check_namespace(self, attributes: Attributes) -> None:
        labels = labels_of(attributes.object)
        policy, errors = policy_of(labels, self._defaults)
        if attributes.operation == UPDATE:
            before, known = policy_of(labels_of(attributes.old_object), self._defaults)
            errors = [] if errors == known else errors
        else:
            before = policy
        if errors:
            raise status.invalid(attributes.kind, attributes.group, attributes.name, errors)
        name = attributes.name
        is_new = attributes.operation == CREATE
        is_relaxed = policy.enforce.minor == before.enforce.minor and not policy.enforce.is_stricter_than(
            before.enforce
        )
        if not is_new and (policy.enforce.level == PRIVILEGED or is_relaxed):
            return
        if name in self._exempt.namespaces:
            if not policy.is_privileged and policy != self._defaults:
                attributes.warn(_ignored(name, policy, labels))
        elif not is_new:
            pods = attributes.context.cluster.list("", "pods", name)
            for text in self._pod_warnings(name, policy.enforce, pods):
                attributes.warn(text)

    def _pod_warnings(self, namespace: str, enforce: LevelVersion, pods: Sequence[Json]) -> list[str]:
        chosen = self._prioritized(pods)
        deadline = time.monotonic() + _MAX_SECONDS
        by_reason: dict[str, list[str]] = {}
        checked = 0
        for pod in chosen[:_MAX_PODS]:
            checked += 1
            if found := violations(enforce, pod["metadata"], spec_of(pod)):
                by_reason.setdefault(reason_of(found), []).append(pod["metadata"]["name"])
            if time.monotonic() > deadline:
                break
        warnings = []
        if checked < len(chosen):
            warnings.append(
                f"new PodSecurity enforce level only checked against the first {checked} of {len(chosen)} "
                "existing pods"
            )
        if by_reason:
            warnings.append(
                f"existing pods in namespace {gostyle.quote(namespace)} violate the new PodSecurity enforce "
                f"level {gostyle.quote(str(enforce))}"
            )
        return [*warnings, *sorted(_pods_with(reason, names) for reason, names in by_reason.items())]

    def _prioritized(self, pods: Sequence[Json]) -> list[Json]:
        """One pod of each controller first: its others look alike."""
        first, others, seen = [], [], set()
        for pod in pods:
            if spec_of(pod).get("runtimeClassName") in self._exempt.runtime_classes:
                continue
            owners = pod["metadata"].get("ownerReferences") or ()
            owner = next((each["uid"] for each in owners if each.get("controller")), None)
            if owner is not None and owner in seen:
                others.append(pod)
            else:
                first.append(pod)
                seen.add(owner)
        return first + others


def _pods_with(reason: str, names: list[str]) -> str:
    others = len(names) - 1
    more = f" (and {others} other pod{'' if others == 1 else 's'})" if others else ""
    return f"{min(names)}{more}: {reason}"


def _ignored(namespace: str, policy: Policy, labels: dict[str, str]) -> str:
    shown = [
        f"{mode}={wanted}"
        for mode, wanted in zip(("enforce", "audit", "warn"), policy, strict=True)
        if wanted.level != PRIVILEGED and (f"{PREFIX}{mode}" in labels or f"{PREFIX}{mode}-version" in labels)
    ]
    return (
        f"namespace {gostyle.quote(namespace)} is exempt from Pod Security, and the policy "
        f"({', '.join(shown)}) will be ignored"
    )


def _template(obj: Json, resource: str) -> Json | None:
    spec = spec_of(obj)
    if resource == "podtemplates":
        return obj.get("template")
    if resource == "cronjobs":
        spec = spec_of(spec.get("jobTemplate"))
    template: Json | None = spec.get("template")
    return template


def _matters(new: Json, old: Json) -> bool:
    """Whether an update of a pod can change the verdict: containers or images."""

    def images(spec: Json, key: str) -> list[Any]:
        return [each.get("image") for each in spec.get(key) or ()]

    if any(images(new, key) != images(old, key) for key in ("containers", "initContainers")):
        return True
    before = {each["name"]: each.get("image") for each in old.get("ephemeralContainers") or ()}
    return any(
        before.get(each["name"], "") != each.get("image") or each["name"] not in before
        for each in new.get("ephemeralContainers") or ()
    )
