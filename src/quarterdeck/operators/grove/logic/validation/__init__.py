"""What a PodCliqueSet may say.

``rules`` says what the operator allows, ``created`` holds the rules of every write, ``update`` those of
changes, ``topology`` and ``topologyupdate`` the rules of constraints. All collect what is wrong.
"""

from .created import validate
from .rules import Rules
from .topology import TopologyVerdict, check_domains, resolve_topology, unknown_topology
from .topologyupdate import topology_changes
from .update import validate_update
from .warning import warnings_of

__all__ = [
    "Rules",
    "TopologyVerdict",
    "check_domains",
    "resolve_topology",
    "topology_changes",
    "unknown_topology",
    "validate",
    "validate_update",
    "warnings_of",
]
