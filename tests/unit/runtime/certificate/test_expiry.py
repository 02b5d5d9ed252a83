"""The date at which the webhooks' certificate expires, as Prometheus sees it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from quarterdeck.runtime.certificate import FileCertificates
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.webhook import WebhookOptions, WebhookServer
from quarterdeck.testing import eventually
from quarterdeck.wire.certificate import expiry_of
from quarterdeck.wire.http import Response
from tests.unit.runtime.servicekit import Authority

pytestmark = pytest.mark.real_time

NAME = b"quarterdeck_webhook_certificate_expiry_timestamp_seconds"


def shown(metrics: RuntimeMetrics) -> list[float]:
    lines = metrics.registry.expose().splitlines()
    return [float(line.split()[1]) for line in lines if line.startswith(NAME)]


@pytest.mark.real_time
async def test_a_new_certificate_moves_the_date_that_is_shown(tmp_path: Path) -> None:
    authority, metrics = Authority(), RuntimeMetrics()
    first = authority.issue(tmp_path)
    server = WebhookServer(
        WebhookOptions(host="127.0.0.1", port=0),
        certificates=FileCertificates(tmp_path, poll=0.02, metrics=metrics),
        metrics=metrics,
    )
    server.register("/ping", lambda request: Response(200, b'"pong"'))
    assert shown(metrics) == []
    async with server:
        assert shown(metrics) == [expiry_of(first)]
        assert expiry_of(first) == pytest.approx((authority.now + timedelta(days=1)).timestamp(), abs=1)
        authority.now -= timedelta(hours=1)
        second = authority.issue(tmp_path)
        assert expiry_of(second) != expiry_of(first)
        await eventually(lambda: shown(metrics) == [expiry_of(second)], timeout=60)
