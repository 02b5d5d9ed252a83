"""The servers that guarantees are tested on: the embedded one on virtual time, and kube-apiserver.

``wire`` is for what concerns the wire and runs on both; ``cluster`` (the plugin's) is the embedded one alone.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s.core import Namespace
from quarterdeck.testing import TestCluster

from .gadget import Gadget, Wire

KUBE = pytest.param("kube", marks=[pytest.mark.kube, pytest.mark.real_time(limit=180)])


@pytest.fixture(params=["embedded", KUBE])
async def wire(request: pytest.FixtureRequest) -> AsyncIterator[Wire]:
    """A cluster with the kind ``Gadget``, and a namespace of the test's own."""
    existing = request.getfixturevalue("real_server") if request.param == "kube" else False
    async with TestCluster(crds=[Gadget], use_existing=existing) as cluster:
        namespace = f"guarantee-{random.randrange(10**9)}"
        await cluster.client.create(Namespace(metadata=ObjectMeta(name=namespace)))
        yield Wire(cluster, namespace)
