"""Takes reports of trainings about themselves: POST of a TrainJob's status by one of its own pods.

Who reports has a token that was made for this one TrainJob and for a pod of its namespace; the API server
is asked about it. What is reported goes to ``status.trainerStatus`` and nowhere else.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final

from quarterdeck.api import UNSET, Maybe, Model, ObjectMeta, Time, decode, encode, to_dict
from quarterdeck.api.k8s import TokenReview
from quarterdeck.api.k8s.authentication import TokenReviewSpec
from quarterdeck.client import Client
from quarterdeck.client.clock import Clock
from quarterdeck.errors import ApiError, BadRequest, Invalid, NotFound, QuarterdeckError, SchemaError
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.metrics import TrainerMetrics
from quarterdeck.operators.trainer.types import TrainerStatus, TrainJob, TrainJobStatus
from quarterdeck.runtime.log.field import get_logger
from quarterdeck.runtime.loop.clock import time_now
from quarterdeck.runtime.rbac import Rule
from quarterdeck.wire.http import KIB, Request, Response

FOLDER: Final = f"/apis/{names.API_VERSION}/namespaces"
"""What is served of the webhook server's paths."""
RULES: Final = (
    Rule(groups=("authentication.k8s.io",), resources=("tokenreviews",), verbs=("create",)),
    Rule(groups=(names.GROUP,), resources=("trainjobs/status",), verbs=("patch",)),
)
_PATH: Final = re.compile(rf"{FOLDER}/([^/]+)/trainjobs/([^/]+)/status")
_LARGEST: Final = 64 * KIB
_TIMEOUT: Final = 10.0
_log: Final = get_logger(__name__)


class _Report(Model):
    trainer_status: Maybe[TrainerStatus] = UNSET


class _Refused(QuarterdeckError):
    """The report is not taken."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code: Final = code
        self.reason: Final = reason


class ProgressReceiver:
    """Answers pods that report."""

    def __init__(self, client: Client, metrics: TrainerMetrics, clock: Clock) -> None:
        self._client: Final = client
        self._metrics: Final = metrics
        self._clock: Final = clock

    async def handle(self, request: Request) -> Response:
        """Take one report; the answer is what was taken, or a Status that says why it was not."""
        try:
            report = await self._take(request)
        except _Refused as refusal:
            self._metrics.reports.labelled("refused").inc()
            status = {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": str(refusal),
                "reason": refusal.reason,
                "code": refusal.code,
            }
            return Response(refusal.code, encode(status))
        self._metrics.reports.labelled("taken").inc()
        return Response(200, encode(report))

    async def _take(self, request: Request) -> _Report:
        place = _PATH.fullmatch(request.path)
        if place is None or request.method != "POST":
            raise _Refused(404, "NotFound", "Not found")
        namespace, name = place.groups()
        if not await self._is_own(request.header("authorization"), namespace, name):
            raise _Refused(403, "Forbidden", "Forbidden")
        if request.is_too_large or len(request.body) > _LARGEST:
            raise _Refused(413, "RequestEntityTooLarge", f"Payload is larger than {_LARGEST} bytes")
        try:
            report = decode(request.body, _Report)
        except SchemaError:
            raise _Refused(422, "Invalid", "Invalid payload") from None
        if report.trainer_status:
            await self._write(namespace, name, report.trainer_status)
        return report

    async def _is_own(self, header: str, namespace: str, name: str) -> bool:
        """Whether a token is good for this TrainJob, and of its namespace."""
        words = header.split()
        if len(words) != 2 or words[0].lower() != "bearer":
            return False
        spec = TokenReviewSpec(token=words[1], audiences=(names.status_audience(namespace, name),))
        try:
            async with asyncio.timeout(_TIMEOUT):
                answer = await self._client.create(TokenReview(spec=spec))
        except (QuarterdeckError, TimeoutError) as error:
            _log.error("Authentication failed", error, trace=False)
            raise _Refused(500, "InternalError", "Internal error") from error
        status = answer.status
        is_ours = names.status_audience(namespace, name) in status.audiences
        return (
            bool(status.authenticated)
            and is_ours
            and status.user.username.startswith(f"system:serviceaccount:{namespace}:")
        )

    async def _write(self, namespace: str, name: str, report: TrainerStatus) -> None:
        if not isinstance(report.last_updated_time, Time):
            report = report.evolve(last_updated_time=time_now(self._clock))
        job = TrainJob(
            metadata=ObjectMeta(name=name, namespace=namespace), status=TrainJobStatus(trainer_status=report)
        )
        document = to_dict(job)
        document.pop("spec", None)
        try:
            await self._client.get(TrainJob, name, namespace)
            await self._client.subresource("status").apply(
                TrainJob.from_dict(document), field_manager=names.PROGRESS_MANAGER, force=True
            )
        except NotFound as error:
            raise _Refused(404, "NotFound", "Train job not found") from error
        except (Invalid, BadRequest) as error:
            raise _Refused(422, "Invalid", str(error)) from error
        except ApiError as error:
            _log.error("Failed to update TrainJob", error, trace=False, namespace=namespace, name=name)
            raise _Refused(500, "InternalError", "Internal error") from error
