"""From a changed object to a patch of the bytes that were received.

A typed object, read and written again, may differ from the document it came from without anybody having
changed anything: empty maps are left out, defaults of the class appear. Those differences are ours, not the
author's, and must not be patched into the user's object. So the author's change is carried over to the
received document (``carry_over``), and the patch is the difference between that and what was received.
Fields the class does not know are never touched: they are in the received document.
"""

from typing import Any

Doc = Any
_MISSING: Any = object()


def carry_over(received: Doc, before: Doc, after: Doc) -> Doc:
    """``received`` with the changes between ``before`` and ``after`` made to it.

    ``before`` is ``received`` as the class writes it. Where nothing changed the received value stays as it
    is; where something changed the new value wins.
    """
    if before == after and type(before) is type(after):
        return received
    if isinstance(received, dict) and isinstance(before, dict) and isinstance(after, dict):
        return _carry_map(received, before, after)
    same = isinstance(received, list) and isinstance(before, list) and isinstance(after, list)
    if same and len(received) == len(before):
        return _carry_list(received, before, after)
    return after


def _carry_map(received: dict[str, Doc], before: dict[str, Doc], after: dict[str, Doc]) -> dict[str, Doc]:
    result: dict[str, Doc] = {}
    for key, value in received.items():
        if key in after:
            # Present before only in the received form (an empty map, say): then it is new to the author.
            result[key] = carry_over(value, before.get(key, _MISSING), after[key])
        elif key not in before:
            result[key] = value  # the class leaves it out by itself; the author did not remove it
    added = {
        key: value
        for key, value in after.items()
        if key not in received and (key not in before or before[key] != value)
    }
    return {**result, **added}


def _carry_list(received: list[Doc], before: list[Doc], after: list[Doc]) -> list[Doc]:
    """Changed in place, elements are paired by position; inserted or removed, by what they were."""
    if len(before) == len(after):
        return [carry_over(*three) for three in zip(received, before, after, strict=True)]
    known = list(zip(before, received, strict=True))
    result = []
    for value in after:
        place = next((i for i, (old, _) in enumerate(known) if old == value), None)
        result.append(value if place is None else known.pop(place)[1])
    return result
