"""Resource versions: which of two is newer.

They are opaque by contract and decimal in practice; Kubernetes' own controllers compare them since 1.35.
A version is comparable if it is decimal without a leading zero (so "0" is not). Longer is newer, equal
length compares as text. Only versions of one resource of one server may be compared. Whatever cannot be
compared never blocks anybody: ``is_at_least`` says yes.
"""


def is_comparable(version: str) -> bool:
    """Whether the version is a positive decimal number without leading zeros."""
    return version.isascii() and version.isdigit() and version[0] != "0"


def is_newer(version: str, than: str) -> bool:
    """Whether ``version`` is known to be newer than ``than``; no if they cannot be compared."""
    if version == than:
        return False
    longer = len(version) - len(than)
    is_later = version > than if longer == 0 else longer > 0
    return is_later and is_comparable(version) and is_comparable(than)


def is_at_least(seen: str, wanted: str) -> bool:
    """Whether ``seen`` is as new as ``wanted``; yes if they cannot be compared."""
    longer = len(seen) - len(wanted)
    is_reached = seen >= wanted if longer == 0 else longer > 0
    return is_reached or not (is_comparable(seen) and is_comparable(wanted))
