"""What the operator says about itself: a ConfigMap, because there is no better place.

``data.conditions`` is a JSON list of conditions, ``data.activeBackend`` the name of the backend, which the
next life of the operator compares with its own. ``data.backendOptions`` are the options of the backends at
work, by name: the next life may have to go on with one that its configuration does not name any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from quarterdeck.api import ObjectMeta, to_dict
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.client import Client
from quarterdeck.errors import NotFound, QuarterdeckError
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends.report import BackendReport, initialized_text
from quarterdeck.runtime.contract import Recorder
from quarterdeck.runtime.log import get_logger

_CONDITIONS: Final = "conditions"
_ACTIVE: Final = "activeBackend"
_OPTIONS: Final = "backendOptions"
_LONGEST_ACTION: Final = 128
_log: Final = get_logger(__name__)


class OperatorStatus:
    """Reads and writes it."""

    def __init__(self, client: Client, namespace: str, report: BackendReport, recorder: Recorder) -> None:
        self._client: Final = client
        self._report: Final = report
        self._recorder: Final = recorder
        self._metadata: Final = ObjectMeta(
            name=names.STATUS_CONFIG_MAP, namespace=namespace, labels={names.MANAGED_BY: names.OPERATOR}
        )
        self._object = ConfigMap(metadata=self._metadata)
        self.previous = ""
        """The backend that was active in the life before."""
        self.options: Mapping[str, Mapping[str, Any]] = {}
        """Options of backends by name; until they are set, what the life before has left."""
        self.active = ""
        """The backend that is active in this process; empty before it has started."""

    async def read(self) -> Mapping[str, Mapping[str, Any]]:
        """Find out what was; returns the options of the backends of then, by name."""
        try:
            self._object = await self._client.get(ConfigMap, self._metadata.name, self._metadata.namespace)
        except NotFound:
            return {}
        data = self._object.data
        self.previous = data.get(_ACTIVE, "")
        try:
            self.options = msgspec.json.decode(data.get(_OPTIONS, "{}"), type=dict[str, dict[str, Any]])
        except msgspec.DecodeError as error:
            _log.warning("cannot read the options of earlier backends", error)
        return self.options

    async def write(self) -> None:
        """Say what is; a cluster that cannot be told does not keep the operator from working."""
        data = {_CONDITIONS: msgspec.json.encode(self.document()[_CONDITIONS]).decode()}
        active = self.active or self.previous
        if active:
            data[_ACTIVE] = active
        options = {name: each for name, each in sorted(self.options.items()) if each}
        if options:
            data[_OPTIONS] = msgspec.json.encode(options).decode()
        wanted = ConfigMap(metadata=self._metadata, data=data)
        try:
            self._object = await self._client.apply(wanted, field_manager=names.FIELD_MANAGER, force=True)
        except QuarterdeckError as error:
            _log.warning("cannot write the operator's status", error)

    def started(self, backend: str, others: Iterable[str] = ()) -> None:
        """The active backend is there, and others beside it."""
        for each in dict.fromkeys((*others, backend)):
            action = _action("Init", each)
            self._recorder.event(self._object, "Normal", "BackendInitialized", action, initialized_text(each))
        if self.previous and self.previous != backend:
            text = f"Switched from backend '{self.previous}' to '{backend}'"
            action = _action("Switch", self.previous, backend)
            self._recorder.event(self._object, "Normal", "BackendSwitched", action, text)

    def failed(self, backend: str) -> None:
        """It is not."""
        action, text = _action("Init", backend), self._report.condition.message
        self._recorder.event(self._object, "Warning", "BackendInitializationFailed", action, text)

    def deprecated(self, notices: Mapping[str, str]) -> None:
        """Backends, by name, that an operator to come will refuse, and why."""
        for backend, text in sorted(notices.items()):
            action = _action("Deprecate", backend)
            self._recorder.event(self._object, "Warning", "BackendInterfaceDeprecated", action, text)

    def document(self) -> dict[str, Any]:
        """The same for those who ask over HTTP."""
        return {_CONDITIONS: [to_dict(self._report.condition)], _ACTIVE: self.active}


def _action(*words: str) -> str:
    """What was done to which backend: events that differ only in their text become one series."""
    return "/".join(words)[:_LONGEST_ACTION]
