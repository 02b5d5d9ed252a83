"""Conflicts: fields another manager owns that an apply would change, and the 409 that says so."""

from __future__ import annotations

from collections.abc import Mapping

from quarterdeck.apiserver.status import StatusError
from quarterdeck.errors import QuarterdeckError
from quarterdeck.wire import gostyle

from . import fieldset
from .fieldset import FieldSet
from .managed import Identity


class Conflicts(QuarterdeckError):
    """What each other manager owns of the fields that would change."""

    def __init__(self, sets: Mapping[Identity, FieldSet]) -> None:
        super().__init__("apply conflict")
        self.sets = dict(sets)

    def to_status(self) -> StatusError:
        """The 409 with one cause per field, managers sorted."""
        causes = []
        lines = []
        for identity in sorted(self.sets, key=Identity.text):
            shown = _manager_text(identity)
            lines.append(f"conflicts with {shown}:")
            for path in map(fieldset.render, fieldset.paths(self.sets[identity])):
                lines.append(f"- {path}")
                causes.append(
                    {"reason": "FieldManagerConflict", "message": f"conflict with {shown}", "field": path}
                )
        if len(causes) == 1:
            message = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
        else:
            message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
        return StatusError(409, message, reason="Conflict", details={"causes": causes})


def _manager_text(identity: Identity) -> str:
    text = gostyle.quote(identity.manager)
    if identity.subresource:
        text += f" with subresource {gostyle.quote(identity.subresource)}"
    return f"{text} using {identity.api_version}" if identity.operation == "Update" else text
