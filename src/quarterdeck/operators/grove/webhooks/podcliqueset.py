"""Defaulting and validation of PodCliqueSets."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final

from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends.contract import HasCapabilities, HookContext, ValidatesPodCliqueSet
from quarterdeck.operators.grove.backends.error import BackendError
from quarterdeck.operators.grove.backends.guard import awaited
from quarterdeck.operators.grove.controllers.shared import SharedState
from quarterdeck.operators.grove.logic.capability import missing_capabilities
from quarterdeck.operators.grove.logic.defaulting import with_defaults
from quarterdeck.operators.grove.logic.validation import (
    Rules,
    check_domains,
    resolve_topology,
    topology_changes,
    unknown_topology,
    validate,
    validate_update,
    warnings_of,
)
from quarterdeck.operators.grove.types import PodCliqueSet, TopologyLevel
from quarterdeck.runtime.log import get_logger
from quarterdeck.runtime.webhook import AdmissionWebhook, Defaulter, Validator
from quarterdeck.runtime.webhook.admission import Admission, deny
from quarterdeck.runtime.webhook.registration import WebhookRule
from quarterdeck.wire.fielderror import FieldError, invalid
from quarterdeck.wire.gostyle import quote

from .state import ClusterReader

_log: Final = get_logger(__name__)


class SetGuard:
    """Fills in and judges sets."""

    def __init__(self, shared: SharedState, reader: ClusterReader, hook: HookContext) -> None:
        """``hook`` is what backends get that look at sets."""
        self._shared: Final = shared
        self._reader: Final = reader
        self._hook: Final = hook

    def webhooks(self) -> tuple[AdmissionWebhook, ...]:
        """What to serve."""
        rule = WebhookRule(
            (names.GROUP,), (names.VERSION,), ("podcliquesets",), ("CREATE", "UPDATE"), "Namespaced"
        )
        return (
            Defaulter(
                PodCliqueSet,
                self.default,
                path=names.DEFAULTING_PATH,
                name=names.DEFAULTING_WEBHOOK,
                rules=(rule,),
                match_policy="Exact",
            ),
            Validator(
                PodCliqueSet,
                create=self.check_new,
                update=self.check_change,
                path=names.VALIDATING_PATH,
                name=names.VALIDATING_WEBHOOK,
                rules=(rule,),
                match_policy="Exact",
            ),
        )

    @property
    def _rules(self) -> Rules:
        configuration = self._shared.configuration
        return Rules(
            default_scheduler=configuration.scheduler_name,
            enabled_schedulers=frozenset(configuration.enabled_schedulers),
            has_topology=self._shared.has_topology,
            has_default_topology=bool(self._shared.default_levels),
            has_mnnvl=configuration.network.auto_mnnvl_enabled,
        )

    def default(self, admission: Admission, pcs: PodCliqueSet) -> PodCliqueSet | Awaitable[PodCliqueSet]:
        """Fill in what is not said."""
        filled = with_defaults(pcs)
        return filled if filled.spec.replicas >= 0 else self._refuse(admission, filled)

    async def _refuse(self, admission: Admission, pcs: PodCliqueSet) -> PodCliqueSet:
        """Judge now what the scale subresource would refuse next, in less helpful words and alone."""
        if admission.operation == "CREATE":
            await self.check_new(admission, pcs)
        else:
            await self.check_change(admission, admission.read_old(PodCliqueSet), pcs)
        return pcs

    async def check_new(self, admission: Admission, pcs: PodCliqueSet) -> None:
        """Judge a new set."""
        errors, levels = await self.judge(pcs, spread=_spread_cliques(admission.document()))
        for text in warnings_of(pcs.spec.template, levels):
            admission.warn(text)
        deny(errors)

    async def judge(
        self, pcs: PodCliqueSet, *, spread: Sequence[int] = ()
    ) -> tuple[list[FieldError], Sequence[TopologyLevel]]:
        """What is wrong with a set if it is new, and the levels of its topology."""
        rules, template = self._rules, pcs.spec.template
        verdict = resolve_topology(template, rules)
        errors, levels = list(verdict.errors), await self._levels(verdict.name)
        if verdict.name:
            errors += [unknown_topology(verdict.name)] if levels is None else check_domains(template, levels)
        errors += validate(pcs, rules, spread=spread)
        errors += await self._check_backend(pcs)
        return errors, levels or ()

    async def check_change(self, admission: Admission, old: PodCliqueSet, new: PodCliqueSet) -> None:
        """Judge a change; one that leaves alone what is judged cannot make it wrong."""
        if new.metadata.is_deleting:
            return
        for text in warnings_of(new.spec.template):
            admission.warn(text)
        if _judged(new) == _judged(old):
            return
        errors = validate(new, self._rules, old=old)
        if complaints := await self._check_backend(new):
            # What was wrong before stays possible: the set may be older than the scheduler it is asked about.
            known = await self._check_backend(old)
            errors += [each for each in complaints if each not in known]
        if not errors:
            before, after = old.spec.template, new.spec.template
            errors = validate_update(old, new) + topology_changes(before, after)
        deny(errors)

    async def _levels(self, topology: str) -> Sequence[TopologyLevel] | None:
        if not topology:
            return None
        if topology == names.DEFAULT_TOPOLOGY and self._shared.default_levels:
            return self._shared.default_levels
        found = await self._reader.topology(topology)
        return found.spec.levels if found is not None else None

    async def _check_backend(self, pcs: PodCliqueSet) -> list[FieldError]:
        """What the scheduler of the first clique has to say."""
        cliques = pcs.spec.template.cliques
        scheduler = cliques[0].spec.pod_spec.scheduler_name if cliques else ""
        try:
            backend = self._shared.backends.find(scheduler)
        except BackendError:
            text = f"schedulerName {quote(scheduler)} is not enabled in OperatorConfiguration"
            return [invalid("spec", pcs.metadata.name, text)]
        errors: list[FieldError] = []
        if isinstance(backend, HasCapabilities):
            errors += missing_capabilities(pcs, backend.name, backend.capabilities)
        if not isinstance(backend, ValidatesPodCliqueSet):
            return errors
        try:
            await awaited(backend.validate_pod_clique_set(self._hook, pcs))
        except Exception as error:  # noqa: BLE001  code of others: whatever it raises is its verdict
            _log.debug("scheduler backend refuses a PodCliqueSet", backend=backend.name)
            errors.append(invalid("spec", pcs.metadata.name, str(error)))
        return errors


def _spread_cliques(document: Mapping[str, Any]) -> list[int]:
    """The places of cliques whose pods say how they are spread: an empty list is not the same as none."""
    cliques = document.get("spec", {}).get("template", {}).get("cliques") or ()
    return [
        place
        for place, clique in enumerate(cliques)
        if clique.get("spec", {}).get("podSpec", {}).get("topologySpreadConstraints") is not None
    ]


def _judged(pcs: PodCliqueSet) -> object:
    """What a verdict is about; the operator's own mark is not."""
    annotations = {**pcs.metadata.annotations, names.HASH_VERSION: ""}
    return pcs.spec, pcs.metadata.labels, annotations
