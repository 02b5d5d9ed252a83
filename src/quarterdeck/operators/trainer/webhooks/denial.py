"""How a refusal is worded."""

from __future__ import annotations

from collections.abc import Sequence

from quarterdeck.errors import ErrorCause
from quarterdeck.operators.trainer.logic.violation import Violation
from quarterdeck.runtime.webhook.admission import Denied

__all__ = ["deny"]


def deny(violations: Sequence[Violation]) -> None:
    """Raise ``Denied`` with all findings; one is its text, several are a list."""
    if not violations:
        return
    texts = list(dict.fromkeys(map(str, violations)))
    causes = (ErrorCause(reason=each.reason, message=each.message, field=each.path) for each in violations)
    raise Denied(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]", *causes)
