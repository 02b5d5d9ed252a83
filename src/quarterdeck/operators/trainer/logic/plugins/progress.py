"""Progress: the pods that train learn where to report how far they are, and get what they report with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.errors import ReconcileError
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.env import literal
from quarterdeck.operators.trainer.logic.info import Info
from quarterdeck.operators.trainer.logic.plugin import Component, Present, config_map
from quarterdeck.operators.trainer.logic.template import pod_spec, upsert_env, upsert_mount, upsert_volume
from quarterdeck.operators.trainer.types import TrainJob

_TOKEN_LIFE: Final = 3600
_CA: Final = "ca.crt"
_TOKEN: Final = "token"


class StatusServer(msgspec.Struct, frozen=True):
    """Who is reported to."""

    url: str
    ca_bundle: str


class Progress:
    """For operators that take reports; ``server`` is asked at each rendering, its certificate may change."""

    name: Final = "TrainJobStatus"

    def __init__(self, server: Callable[[], StatusServer]) -> None:
        self._server: Final = server

    def enforce_pods(self, info: Info, job: TrainJob) -> None:
        """Give every container of the trainer the address, and a token for this TrainJob only."""
        pods = info.ancestor(names.TRAINER)
        if pods is None:
            return
        namespace, name = job.metadata.namespace, job.metadata.name
        entries = [
            literal(names.SERVER_URL, f"{self._server().url}{names.status_path(namespace, name)}"),
            literal(names.SERVER_CA_CERT, f"{names.SERVER_MOUNT}/{_CA}"),
            literal(names.SERVER_TOKEN, f"{names.SERVER_MOUNT}/{_TOKEN}"),
        ]
        mount = {"name": names.TOKEN_VOLUME, "mountPath": names.SERVER_MOUNT, "readOnly": True}
        for container in pod_spec(pods.job).get("containers") or ():
            upsert_env(container, entries)
            upsert_mount(container, dict(mount))
        upsert_volume(pods.job, _volume(job))

    def build(self, info: Info, job: TrainJob, present: Present) -> list[Component]:
        """The authorities that the server is trusted by; raises ``ReconcileError`` before it has some."""
        bundle = self._server().ca_bundle
        if not bundle:
            raise ReconcileError("the server that takes reports of progress has no certificate yet")
        return [Component(config_map(job, names.tls_config_name(job.metadata.name), {_CA: bundle}))]


def _volume(job: TrainJob) -> Json:
    namespace, name = job.metadata.namespace, job.metadata.name
    token = {
        "audience": names.status_audience(namespace, name),
        "expirationSeconds": _TOKEN_LIFE,
        "path": _TOKEN,
    }
    authorities = {"name": names.tls_config_name(name), "items": [{"key": _CA, "path": _CA}]}
    sources = [{"serviceAccountToken": token}, {"configMap": authorities}]
    return {"name": names.TOKEN_VOLUME, "projected": {"sources": sources}}
