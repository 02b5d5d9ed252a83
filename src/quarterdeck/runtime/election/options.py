"""Settings of an election, and the rules they must obey."""

import os
import socket
import uuid
from pathlib import Path
from typing import Final

import msgspec

from quarterdeck.client.config import SERVICE_ACCOUNT
from quarterdeck.errors import ConfigError

JITTER: Final = 1.2
"""How much longer than ``retry_period`` an attempt may be apart, as a factor of it."""


class LeaderElection(msgspec.Struct, frozen=True, kw_only=True):
    """How to campaign for one Lease."""

    name: str
    """Name of the Lease: the same in all replicas, different from every other program's."""
    namespace: str = ""
    """Where the Lease lives; empty means the namespace of the pod."""
    identity: str = ""
    """Who we are; empty means ``<hostname>_<uuid>``."""
    lease_duration: float = 15.0
    """Seconds others wait after the last renewal they saw; the longest time without a leader."""
    renew_deadline: float = 10.0
    """Seconds a leader tries to renew before it gives up; writes are refused from then on."""
    retry_period: float = 2.0
    """Seconds between two tries."""
    release_on_cancel: bool = True
    """Give the Lease back on a clean stop, so that the next leader need not wait for it to expire."""
    stall_limit: float = 60.0
    """Seconds the main event loop may be blocked before the Lease is no longer renewed on its behalf."""
    shards: int = 1
    """Share the keys among the replicas in so many parts, each with a Lease of its own; 1 has one leader."""
    labels: dict[str, str] = {}
    """Labels of the Lease, if we create it."""

    def checked(self) -> "LeaderElection":
        """With namespace and identity filled in; raises ``ConfigError`` for settings that cannot work."""
        if not self.name:
            raise ConfigError("LeaderElectionID must be configured")
        if min(self.lease_duration, self.renew_deadline, self.retry_period) < 1:
            raise ConfigError("leaseDuration, renewDeadline and retryPeriod must each be at least one second")
        if self.lease_duration <= self.renew_deadline:
            raise ConfigError("leaseDuration must be greater than renewDeadline")
        if self.renew_deadline <= self.retry_period * JITTER:
            raise ConfigError("renewDeadline must be greater than retryPeriod*JitterFactor")
        if self.shards < 1:
            raise ConfigError("an election needs at least one shard")
        return msgspec.structs.replace(
            self,
            namespace=self.namespace or find_namespace(),
            identity=self.identity or make_identity(),
        )

    @property
    def request_timeout(self) -> float:
        """Seconds for one request of the election's own client."""
        return max(self.renew_deadline / 2, 1.0)


def find_namespace(service_account: str | os.PathLike[str] = SERVICE_ACCOUNT) -> str:
    """The namespace of the pod we run in; raises ``ConfigError`` outside of a cluster."""
    path = Path(service_account, "namespace")
    try:
        namespace = path.read_text().strip()
    except OSError as error:
        raise ConfigError(
            "unable to find leader election namespace: not running in-cluster, "
            "please specify LeaderElectionNamespace"
        ) from error
    if not namespace:
        raise ConfigError(f"unable to find leader election namespace: {path} is empty")
    return namespace


def make_identity() -> str:
    """``<hostname>_<uuid>``: readable, and different after every restart."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"
