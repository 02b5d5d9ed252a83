"""The admission hook judges what people write, and is not asked about what the allocator makes."""

from __future__ import annotations

import pytest

from quarterdeck.operators.ipam.types import Subnet
from quarterdeck.runtime.webhook import Validator
from quarterdeck.runtime.webhook.admission import Admission

from .ipamkit import Operator, claim, ipam_cluster, outcome, pool, subnet


@pytest.mark.virtual_time
async def test_the_hook_is_asked_about_subnets_of_people_only() -> None:
    async with ipam_cluster() as cluster:
        operator, asked = Operator(cluster), list[str]()

        def note(admission: Admission, made: Subnet) -> None:
            asked.append(made.metadata.name)

        guard = next(each for each in operator.webhooks.admission if "subnet." in each.settings.name)
        conditions = guard.settings.match_conditions
        await cluster.serve_webhooks(Validator(Subnet, note, match_conditions=conditions))
        async with operator.running():
            await cluster.client.create(pool())
            await cluster.client.create(claim("a"))
            await operator.settle()
            assert (await outcome(cluster.client, "a"))[0] == "Bound"
            await cluster.client.create(subnet("mine", "10.0.7.0/24"))
        assert asked == ["mine"]
