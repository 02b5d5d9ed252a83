"""The options of the agent's process: one JSON document on its standard input."""

from __future__ import annotations

import msgspec

from quarterdeck.cluster.agent.agent import AgentSettings

READY = b"ready\n"
STOP = b"stop\n"


class NodeAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent is to do, and as whom."""

    kubeconfig: str
    """File with the node's own credentials, not the administrator's."""
    settings: AgentSettings
    socket: str
    """Where the API server finds it."""
    outlives_server: bool = False
    """Whether pods go on when the server is gone without a word: it will come back and know them."""
    log_level: str = "WARNING"
