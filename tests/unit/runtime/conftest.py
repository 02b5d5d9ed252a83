"""The cluster of the runtime's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from .widgetcluster import WidgetCluster, widget_cluster


@pytest.fixture
async def api() -> AsyncIterator[WidgetCluster]:
    """A cluster that serves widgets and has none yet."""
    async with widget_cluster() as made:
        yield made
