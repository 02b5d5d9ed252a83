"""Cliques that wait for each other in a circle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def cycles(after: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The strongly connected components with more than one member, after Tarjan; without recursion.

    ``after`` names for each clique those it waits for; names that are no cliques are skipped.
    """
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []
    for start in after:
        if start in order:
            continue
        path: list[tuple[str, list[str]]] = [(start, _known(after, start))]
        order[start] = lowest[start] = len(order)
        stack.append(start)
        while path:
            name, left = path[-1]
            if left:
                parent = left.pop()
                if parent not in order:
                    order[parent] = lowest[parent] = len(order)
                    stack.append(parent)
                    path.append((parent, _known(after, parent)))
                elif parent in stack:
                    lowest[name] = min(lowest[name], order[parent])
                continue
            path.pop()
            if path:
                above = path[-1][0]
                lowest[above] = min(lowest[above], lowest[name])
            if lowest[name] == order[name]:
                place = stack.index(name)
                component = stack[place:]
                del stack[place:]
                if len(component) > 1:
                    found.append(component)
    return found


def _known(after: Mapping[str, Sequence[str]], name: str) -> list[str]:
    return [parent for parent in reversed(after[name]) if parent in after]
