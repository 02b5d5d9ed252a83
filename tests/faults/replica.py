"""A replica of a small program that leads or waits: `python replica.py KUBECONFIG IDENTITY`.

While it leads it writes its name into one config map, every 20 ms. It prints `ready` when it campaigns and
ends with code 1 when it has lost its Lease, as `quarterdeck run` does.
"""

from __future__ import annotations

import asyncio
import sys

from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.client import Config
from quarterdeck.runtime import Context, Manager
from quarterdeck.runtime.election import LeaderElection

NAMESPACE, TARGET, LEASE_NAME = "default", "target", "crew"
LEASE, RENEW, RETRY = 8.0, 6.0, 1.0


async def main(kubeconfig: str, identity: str) -> int:
    async def write(ctx: Context[ConfigMap]) -> None:
        if ctx.key.name != TARGET:
            return
        await asyncio.sleep(0.02)  # its own write wakes it again
        count = int(ctx.obj.data.get("count", "0")) + 1
        await ctx.update(ctx.obj.evolve(data={"by": identity, "count": str(count)}))

    election = LeaderElection(
        name=LEASE_NAME,
        namespace=NAMESPACE,
        identity=identity,
        lease_duration=LEASE,
        renew_deadline=RENEW,
        retry_period=RETRY,
    )
    async with Manager(Config.load(kubeconfig), leader_election=election) as manager:
        manager.add(manager.controller(ConfigMap, name="writer").build(write))

        async def announce() -> None:
            while not manager.is_started:  # noqa: ASYNC110  nobody signals it
                await asyncio.sleep(0.01)
            print("ready", flush=True)

        telling = asyncio.create_task(announce())
        code = await manager.run()
        telling.cancel()
        return code


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
