"""What kinds of cases share: the words they know."""

from __future__ import annotations

from .case import Case, CaseFailure
from .words import Words, unknown_words, words


class KnownWords:
    """A kind that says which words its cases may use, and runs beside anything."""

    given: Words = words()
    when: Words = words()
    then: Words = words()

    def lane(self, case: Case) -> str:
        return ""

    def refuse_unknown(self, case: Case) -> None:
        """Raises CaseFailure that names every word nobody would look at."""
        unknown = [
            *unknown_words(case.given, self.given, "given"),
            *unknown_words(case.when, self.when, "when"),
            *unknown_words(case.then, self.then, "then"),
        ]
        if unknown:
            raise CaseFailure(*unknown)
