"""What the operator says about itself: a ConfigMap, because there is no better place.

``data.conditions`` is a JSON list of conditions, ``data.activeBackend`` the name of the backend, which the
next life of the operator compares with its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from quarterdeck.api import ObjectMeta, to_dict
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.client import Client
from quarterdeck.errors import NotFound, QuarterdeckError
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends.report import BackendReport, initialized_text
from quarterdeck.runtime.log import get_logger
from quarterdeck.runtime.seam import Recorder

__all__ = ["OperatorStatus"]

_CONDITIONS: Final = "conditions"
_ACTIVE: Final = "activeBackend"
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
        self._active = ""

    async def read(self) -> None:
        """Find out what was."""
        try:
            self._object = await self._client.get(ConfigMap, self._metadata.name, self._metadata.namespace)
        except NotFound:
            return
        self.previous = self._active = self._object.data.get(_ACTIVE, "")

    async def write(self, active: str = "") -> None:
        """Say what is; a cluster that cannot be told does not keep the operator from working."""
        self._active = active or self._active
        data = {_CONDITIONS: msgspec.json.encode(self.document()[_CONDITIONS]).decode()}
        if self._active:
            data[_ACTIVE] = self._active
        wanted = ConfigMap(metadata=self._metadata, data=data)
        try:
            self._object = await self._client.apply(wanted, field_manager=names.FIELD_MANAGER, force=True)
        except QuarterdeckError as error:
            _log.warning("cannot write the operator's status", error)

    def started(self, backend: str, others: Iterable[str] = ()) -> None:
        """The active backend is there, and others beside it."""
        for each in dict.fromkeys((*others, backend)):
            self._recorder.event(self._object, "Normal", "BackendInitialized", "Init", initialized_text(each))
        if self.previous and self.previous != backend:
            text = f"Switched from backend '{self.previous}' to '{backend}'"
            self._recorder.event(self._object, "Normal", "BackendSwitched", "Init", text)

    def failed(self) -> None:
        """It is not."""
        condition = self._report.condition
        self._recorder.event(
            self._object, "Warning", "BackendInitializationFailed", "Init", condition.message
        )

    def document(self) -> dict[str, Any]:
        """The same for those who ask over HTTP."""
        return {_CONDITIONS: [to_dict(self._report.condition)], _ACTIVE: self._active}
