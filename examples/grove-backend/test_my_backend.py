"""The conformance kit on the example; run it with pytest."""

from my_backend import MyBackend

from quarterdeck.operators.grove.backends.conformance import conformance_problems
from quarterdeck.operators.grove.types import definitions
from quarterdeck.testing import TestCluster


async def test_it_conforms() -> None:
    async with TestCluster(crds=definitions()) as cluster:
        assert not await conformance_problems(MyBackend, cluster.client, scheduler_name="my-scheduler")
