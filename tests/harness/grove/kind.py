"""What the kinds of grove cases share.

Cases about admission run on the server under test; all others on an embedded server in this process, on
virtual time, because they wait for minutes. All cases use the same names, so they run one after the other.
"""

from __future__ import annotations

from typing import Any, Final

from tests.harness.case import Case, CaseFailure
from tests.harness.kind import KnownWords
from tests.harness.run import Run
from tests.harness.words import words

from .caseobjects import CaseObjects
from .server import GroveServer, server_of

__all__ = ["GroveKind", "Json", "Lines"]

Json = dict[str, Any]
Lines = list[str]

_LANE: Final = "grove"


class GroveKind(KnownWords):
    """What the kinds share: one lane and a clean server."""

    given = words("config", "objects")
    is_private = True
    """Runs on the embedded server whatever the server under test is."""

    def lane(self, case: Case) -> str:
        return _LANE

    def run(self, case: Case, run: Run) -> None:
        self.refuse_unknown(case)
        server = server_of(run, is_private=self.is_private)
        server.play(self._play(case, server))

    async def _play(self, case: Case, server: GroveServer) -> None:
        objects = CaseObjects(server)
        try:
            lines = await self.check(case, server, objects)
        finally:
            await objects.clear()
        if lines:
            raise CaseFailure(*lines)

    async def check(self, case: Case, server: GroveServer, objects: CaseObjects) -> Lines:
        """What does not hold."""
        raise NotImplementedError
