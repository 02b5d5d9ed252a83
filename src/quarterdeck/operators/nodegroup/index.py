"""Indexes kept over cached kinds."""

from __future__ import annotations

from typing import Final

from quarterdeck.operators.nodegroup import names
from quarterdeck.runtime.cache import label

NODES_BY_GROUP: Final = label(names.GROUP_LABEL)
"""The Nodes of a group, by its name."""
