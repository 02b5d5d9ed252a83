"""Validation of ClusterTopologyBindings."""

from __future__ import annotations

from typing import Final

from quarterdeck.api import LabelSelector
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends.contract import TopologyAware
from quarterdeck.operators.grove.controllers.shared import SharedState
from quarterdeck.operators.grove.types import ClusterTopologyBinding
from quarterdeck.runtime.webhook import AdmissionWebhook, Validator
from quarterdeck.runtime.webhook.admission import Admission, deny
from quarterdeck.runtime.webhook.registration import WebhookRule
from quarterdeck.wire.fielderror import FieldError, duplicate, invalid


class TopologyGuard:
    """Judges topologies."""

    def __init__(self, shared: SharedState) -> None:
        self._shared: Final = shared

    def webhooks(self) -> tuple[AdmissionWebhook, ...]:
        """What to serve."""
        rule = WebhookRule(
            (names.GROUP,), (names.VERSION,), ("clustertopologybindings",), ("CREATE", "UPDATE"), "Cluster"
        )
        kept = self._shared.topology_labels
        return (
            Validator(
                ClusterTopologyBinding,
                self.check,
                path=names.TOPOLOGY_PATH,
                name=names.TOPOLOGY_WEBHOOK,
                rules=(rule,),
                match_policy="Exact",
                object_selector=LabelSelector(match_labels=kept) if kept else None,
            ),
        )

    def check(self, admission: Admission, topology: ClusterTopologyBinding) -> None:
        """Judge a topology."""
        errors = _check_levels(topology) + self._check_bindings(topology)
        deny(errors)

    def _check_bindings(self, topology: ClusterTopologyBinding) -> list[FieldError]:
        errors: list[FieldError] = []
        seen: set[str] = set()
        backends, enabled = self._shared.backends.backends, self._shared.configuration.enabled_schedulers
        for index, binding in enumerate(topology.spec.scheduler_topology_bindings):
            # the path keeps the word that the field had before
            path = f"spec.schedulerTopologyReferences[{index}].schedulerName"
            name = binding.scheduler_name
            if name in seen:
                errors.append(duplicate(path, name))
            if name not in enabled:
                errors.append(invalid(path, name, "scheduler backend is not enabled in Grove"))
            elif not isinstance(backends.get(name), TopologyAware):
                text = "scheduler backend does not implement topology-aware scheduling"
                errors.append(invalid(path, name, text))
            seen.add(name)
        return errors


def _check_levels(topology: ClusterTopologyBinding) -> list[FieldError]:
    errors: list[FieldError] = []
    domains: set[str] = set()
    keys: set[str] = set()
    for index, level in enumerate(topology.spec.levels):
        if level.domain in domains:
            errors.append(duplicate(f"spec.levels[{index}].domain", level.domain))
        if level.key in keys:
            errors.append(duplicate(f"spec.levels[{index}].key", level.key))
        domains.add(level.domain)
        keys.add(level.key)
    return errors
