"""What the operator needs of a cluster before anything else: looked at by its start and by ``check-config``.

Errors say which part of the start fails, which is also the exit code of the program.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from quarterdeck.client import Client
from quarterdeck.errors import Forbidden, QuarterdeckError, ignore_not_found
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends.served import is_served
from quarterdeck.operators.grove.configuration import OperatorConfiguration
from quarterdeck.operators.grove.logic.mnnvl import COMPUTE_DOMAIN
from quarterdeck.operators.grove.types import ClusterTopologyBinding

CLUSTER_FAILED: Final = 6
MNNVL_FAILED: Final = 7
_GATES: Final = (1, 27)
"""The first Kubernetes that holds pods back by their scheduling gates unless told otherwise."""
_NUMBER: Final = re.compile("[0-9]+")
_PREFLIGHT: Final = "MNNVL preflight check failed"


class StartError(QuarterdeckError):
    """The operator does not start."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code: Final = exit_code


async def check_cluster(client: Client, configuration: OperatorConfiguration) -> None:
    """Raises ``StartError`` where gates do not hold pods, or NVLink is asked for and not there."""
    await _check_gates(client)
    if not configuration.network.auto_mnnvl_enabled:
        return
    try:
        has_domains = await is_served(client, COMPUTE_DOMAIN)
    except QuarterdeckError as error:
        raise StartError(f"{_PREFLIGHT}: failed to discover API resources: {error}", MNNVL_FAILED) from error
    if not has_domains:
        text = (
            f"{_PREFLIGHT}: MNNVL is enabled but ComputeDomain CRD "
            f"(computedomains.{COMPUTE_DOMAIN.group}) is not installed. Please install the NVIDIA DRA "
            "driver or disable MNNVL in the operator configuration"
        )
        raise StartError(text, MNNVL_FAILED)


async def _check_gates(client: Client) -> None:
    try:
        answer = await client.raw("GET", "/version")
    except Forbidden:
        return  # a cluster that does not say how old it is
    found = msgspec.json.decode(answer.body)
    # some distributions have a minor version such as 27+
    numbers = [_NUMBER.match(str(found.get(part, ""))) for part in ("major", "minor")]
    version = tuple(int(each.group()) for each in numbers if each is not None)
    if len(version) == len(_GATES) and version < _GATES:
        raise StartError(
            f"this is Kubernetes {found.get('gitVersion') or version}, which would not hold pods back until "
            f"their gang is complete: scheduling gates need Kubernetes {_GATES[0]}.{_GATES[1]} or newer",
            CLUSTER_FAILED,
        )


async def find_topology(client: Client, *, is_wanted: bool) -> ClusterTopologyBinding | None:
    """The topology that configurations make, if it is there and ours; raises if it is wanted and not ours."""
    present = None
    with ignore_not_found():
        present = await client.get(ClusterTopologyBinding, names.DEFAULT_TOPOLOGY)
    if present is None or present.metadata.labels.get(names.MANAGED_BY) == names.OPERATOR:
        return present
    if is_wanted:
        kind = ClusterTopologyBinding.type_info.kind
        raise QuarterdeckError(f"{kind} {names.DEFAULT_TOPOLOGY} exists and is not ours")
    return None
