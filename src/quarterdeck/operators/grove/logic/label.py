"""Labels of what is made for a PodCliqueSet."""

from __future__ import annotations

from collections.abc import Mapping

from quarterdeck.operators.grove import names


def managed_labels(pcs: str) -> dict[str, str]:
    """On everything that is made for a set."""
    return {names.MANAGED_BY: names.OPERATOR, names.PART_OF: pcs}


def component_labels(pcs: str, component: str, name: str = "") -> dict[str, str]:
    """The same with what it is, and its own name as far as it is a legal label value."""
    labels = {**managed_labels(pcs), names.COMPONENT: component}
    return {**labels, names.NAME: name.replace(":", "-")} if name else labels


def selector_text(labels: Mapping[str, str]) -> str:
    """Labels as a selector, keys in order."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))


def set_index_of(labels: Mapping[str, str]) -> int:
    """The replica of the set that an object belongs to; -1 for none."""
    text = labels.get(names.SET_INDEX, "")
    return int(text) if text.isascii() and text.isdigit() else -1
