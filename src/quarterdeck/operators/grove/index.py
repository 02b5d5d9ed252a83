"""Indexes of the cache."""

from __future__ import annotations

from typing import Final

from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.types import PodClique
from quarterdeck.runtime.cache.index import Index, controller_uid, label

CONTROLLER: Final = controller_uid
"""Children by who controls them."""
PODS_OF_CLIQUE: Final = label(names.PODCLIQUE)
"""Pods by the name of their PodClique."""
CLIQUES_OF_SET: Final[Index[PodClique]] = label(names.PART_OF)
"""PodCliques by the name of their set, those of groups included."""
CLIQUES_OF_GANG: Final[Index[PodClique]] = label(names.PODGANG)
"""PodCliques by the name of their gang."""
CLIQUES_OF_BASE_GANG: Final[Index[PodClique]] = label(names.BASE_PODGANG)
"""PodCliques of scaled gangs by the name of their base gang."""
