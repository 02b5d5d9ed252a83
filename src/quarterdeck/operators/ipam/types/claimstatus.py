"""What the status of both kinds of claims says."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Condition, Maybe, Model, Seq, omitempty
from quarterdeck.api.marker import Int64, ListMap


class ClaimStatus(Model):
    """The state of the claim."""

    observed_generation: Annotated[Maybe[int], Int64] = UNSET
    phase: str = omitempty("")
    """Pending, Bound or Error; empty until the claim was first reconciled."""
    message: str = omitempty("")
    """Why the claim is in this phase."""
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())
