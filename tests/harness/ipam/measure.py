"""What one event costs the operator: from the event to the status patch, without the API server.

Used by the case that bounds it and by the benchmark that plots it.
"""

from __future__ import annotations

import statistics
import time
from typing import Any, Final

from quarterdeck.api import Key, Time
from quarterdeck.operators.ipam.controllers.poolstatus import status_patch
from quarterdeck.operators.ipam.logic.facts import Member, member_of, pool_facts
from quarterdeck.operators.ipam.logic.network import Network, parse
from quarterdeck.operators.ipam.logic.pooltable import PoolTable
from quarterdeck.operators.ipam.logic.statuscalc import Limits, pool_status
from quarterdeck.operators.ipam.types import Subnet, SubnetPool
from quarterdeck.wire.patch import apply_merge_patch

POOL: Final = Key("default", "p")
NOW: Final = Time("2030-01-01T00:00:00Z")


class Setting:
    """A pool with some members, without a server."""

    def __init__(self, members: int, *, size: int, cidr: str = "10.0.0.0/8") -> None:
        self.table: Final = PoolTable()
        self._network: Final = parse(cidr)
        self._size: Final = size
        self._members: Final = members
        self._version = members + 10
        self._pool = SubnetPool.from_dict(
            {
                "apiVersion": "plexaubnet.io/v1alpha1",
                "kind": "SubnetPool",
                "metadata": {"name": POOL.name, "namespace": POOL.namespace, "uid": "pool", "generation": 1},
                "spec": {"cidr": cidr},
            }
        )
        self.table.put_pool(POOL, pool_facts(self._pool))
        for index in range(members):
            self.table.put_subnet(f"u{index}", self._member(index))
        self.write(self._status())

    def event(self, document: bytes, *, deleted: bool) -> dict[str, Any]:
        """One watch event: decode it, take it over, compute the patch."""
        member = member_of(Subnet.from_bytes(document))
        assert member is not None
        if deleted:
            self.table.drop_subnet(member.uid)
        else:
            self.table.put_subnet(member.uid, member)
        return self._status()

    def documents(self, count: int, *, first: int) -> list[bytes]:
        """Subnets that are not members yet, as the watch would bring them."""
        return [self._subnet(first + index).to_bytes() for index in range(count)]

    def _status(self) -> dict[str, Any]:
        state = self.table.state(POOL)
        assert state is not None
        status = pool_status(state, self._pool.status.conditions, now=NOW, has_parent=True, limits=Limits())
        return status_patch(self._pool, status)

    def write(self, patch: dict[str, Any]) -> None:
        """Do what the API server does with a patch."""
        document = apply_merge_patch(self._pool.to_dict(), {"status": patch.get("status") or {}})
        self._pool = SubnetPool.from_dict(document)

    def _member(self, index: int) -> Member:
        return Member(
            uid=f"u{index}",
            namespace=POOL.namespace,
            name=f"s{index}",
            pool=POOL.name,
            block=self._block(index).packed,
            cluster_id=f"c{index}",
            created="2030-01-01T00:00:00Z",
            version=index + 1,
        )

    def _block(self, index: int) -> Network:
        width = self._network.width
        return Network(self._network.address + (index << (width - self._size)), self._size, width)

    def _subnet(self, index: int) -> Subnet:
        self._version += 1
        return Subnet.from_dict(
            {
                "apiVersion": "plexaubnet.io/v1alpha1",
                "kind": "Subnet",
                "metadata": {
                    "name": f"s{index}",
                    "namespace": POOL.namespace,
                    "uid": f"u{index}",
                    "resourceVersion": str(self._version),
                    "generation": 1,
                    "creationTimestamp": "2030-01-01T00:00:01Z",
                },
                "spec": {"poolRef": POOL.name, "cidr": str(self._block(index)), "clusterID": f"c{index}"},
            }
        )

    def measure(self, events: int) -> float:
        """Median seconds of CPU per event, creations and deletions in turn; it ends as it began."""
        times: list[float] = []
        for document in self.documents(events // 2, first=self._members):
            for deleted in (False, True):
                started = time.thread_time()
                patch = self.event(document, deleted=deleted)
                times.append(time.thread_time() - started)
                self.write(patch)
        return statistics.median(times)
