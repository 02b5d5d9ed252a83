"""Backends of cases: they remember what they are asked and fail as they are told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from quarterdeck.api import Scheme
from quarterdeck.client import Client
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends import BackendError, BackendRegistry, HookContext, PodDraft
from quarterdeck.operators.grove.types import PodGang
from quarterdeck.runtime.contract import Recorder
from tests.harness.words import refuse_unknown, words

Json = dict[str, Any]

_HOOKS: Final = ("init", "sync_pod_gang", "on_pod_gang_delete", "prepare_pod")
TEST_BACKEND: Final = words("name", **dict.fromkeys(_HOOKS, words("raise", "times", "onlyFor")))


class Asked(NamedTuple):
    """One call of a hook."""

    backend: str
    hook: str
    pod_gang: str = ""


class CaseBackends:
    """The backends of one case, and what they were asked; it outlives restarts of the operator."""

    def __init__(self, given: list[Json]) -> None:
        self.calls: Final[list[Asked]] = []
        self._scripts: Final = [_Script(each) for each in given]

    def register(self, registry: BackendRegistry) -> list[tuple[int, str]]:
        """Register all of them; returns index and text of each that is refused."""
        refused: list[tuple[int, str]] = []
        for index, script in enumerate(self._scripts):
            try:
                registry.register(script.name, _Factory(script, self.calls))
            except BackendError as error:
                refused.append((index, str(error)))
        return refused


class _Script:
    def __init__(self, raw: Json) -> None:
        refuse_unknown(raw, TEST_BACKEND, "testBackends")
        self.name: Final[str] = raw["name"]
        self._faults: Final[dict[str, Json]] = {hook: dict(raw.get(hook) or {}) for hook in _HOOKS}

    def act(self, hook: str, pod_gang: str = "") -> None:
        """Fail, if it is time to."""
        fault = self._faults[hook]
        if "raise" not in fault:
            return
        only = fault.get("onlyFor")
        if only is not None and pod_gang not in only:
            return
        left = fault.get("times")
        if left is not None:
            if left <= 0:
                return
            fault["times"] = left - 1
        raise BackendError(fault["raise"])


class _Factory:
    def __init__(self, script: _Script, calls: list[Asked]) -> None:
        self._script: Final = script
        self._calls: Final = calls

    def __call__(
        self,
        client: Client,
        scheme: Scheme,
        recorder: Recorder,
        scheduler_name: str,
        config: Mapping[str, Any],
    ) -> CaseBackend:
        return CaseBackend(self._script, self._calls, scheduler_name)


class CaseBackend:
    """Keeps to the contract and to nothing else."""

    def __init__(self, script: _Script, calls: list[Asked], scheduler_name: str) -> None:
        self._script: Final = script
        self._calls: Final = calls
        self._scheduler: Final = scheduler_name

    @property
    def name(self) -> str:
        return self._script.name

    def _asked(self, hook: str, pod_gang: str = "") -> None:
        self._calls.append(Asked(self.name, hook, pod_gang))
        self._script.act(hook, pod_gang)

    def init(self) -> None:
        self._asked("init")

    def sync_pod_gang(self, ctx: HookContext, pod_gang: PodGang) -> None:
        self._asked("sync_pod_gang", pod_gang.metadata.name)

    def on_pod_gang_delete(self, ctx: HookContext, pod_gang: PodGang) -> None:
        self._asked("on_pod_gang_delete", pod_gang.metadata.name)

    def prepare_pod(self, pod: PodDraft) -> None:
        self._asked("prepare_pod", pod.metadata.labels.get(names.PODGANG, ""))
        pod.spec.scheduler_name = self._scheduler
