"""Which code runs which kind of case.

A system (a family of case files) has a module with a mapping `KINDS`; it is imported when the first
file of that system is read. A kind that no system names is looked up among the general ones.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Final, Protocol

from .case import Case, CaseFile
from .run import Run


class Kind(Protocol):
    """How to run the cases of one kind."""

    def run(self, case: Case, run: Run) -> None:
        """Raises CaseFailure when the case does not hold; any other exception is a failure too."""
        ...

    def lane(self, case: Case) -> str:
        """Cases of one lane run one after the other; "" means beside anything."""
        ...


#: lane of cases during which nothing else may run
EXCLUSIVE: Final = "exclusive"

#: text in a file's "system" or file name -> module with its KINDS
_SYSTEMS: Final = {
    "nodegroup": "tests.harness.nodegroup.kinds",
    "ipam": "tests.harness.ipam.kinds",
    "kai": "tests.harness.kai.kinds",
    "trainer": "tests.harness.trainer.kinds",
    "grove": "tests.harness.grove.kinds",
}
_GENERAL: Final = "tests.harness.http"


def find(case: Case) -> Kind | None:
    """The kind of a case, or None when nobody knows it."""
    module = _module(case.file)
    own = _kinds(module).get(case.kind) if module else None
    return own or _kinds(_GENERAL).get(case.kind)


def _module(file: CaseFile) -> str | None:
    for text in (file.system.lower(), file.path.stem.lower()):
        for word, module in _SYSTEMS.items():
            if word in text:
                return module
    return None


def _kinds(module: str) -> Mapping[str, Kind]:
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return {}
    kinds: Mapping[str, Kind] = loaded.KINDS
    return kinds
