"""Which address each pod of a node has."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Final

from quarterdeck.api.k8s import Pod
from quarterdeck.cluster.agent.container.runtime import PodRuntime


class PodAddresses:
    """Gives addresses to pods, by uid."""

    def __init__(self, directory: Path) -> None:
        self._taken: Final[dict[str, str]] = {}
        # Nodes of other clusters on this machine begin elsewhere.
        self._place: Final = zlib.crc32(str(directory.absolute()).encode()) & ~0xFF

    def keep(self, uid: str, address: str) -> None:
        """A pod that is here already has this."""
        self._taken[uid] = address

    def take(self, pod: Pod, runtime: PodRuntime) -> str:
        """The address of a pod: the one that it has, or one that is free."""
        if pod.spec.host_network is True:
            return runtime.host
        known = self._taken.get(pod.metadata.uid)
        if known is not None:
            return known
        taken = {runtime.host, *self._taken.values()}
        size, place = runtime.network.num_addresses, self._place
        while True:
            place += 1
            address = str(runtime.network[place % (size - 2) + 1])
            if address not in taken and not address.endswith((".0", ".255")):
                self._taken[pod.metadata.uid] = address
                return address

    def release(self, uid: str) -> None:
        """A pod is gone."""
        self._taken.pop(uid, None)
