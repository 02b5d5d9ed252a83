"""The graph of imports inside each room: which of its folders and modules uses which.

    python tools/rooms.py [room ...]   prints it; without a room only a line for each
    python tools/rooms.py --check      fails on a cycle

Imports inside functions and for type checkers count as well. Contracts in pyproject.toml say which layer is
above which; this sees to it that there are layers at all, in every folder that has folders.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping

import grimp

ROOT = "quarterdeck"
Graph = Mapping[str, set[str]]


def parts_of_packages() -> dict[str, Graph]:
    """For each package that has packages in it: which of its parts imports which."""
    imports = grimp.build_graph(ROOT, cache_dir=None)
    packages = {module.rpartition(".")[0] for module in imports.modules} - {""}
    rooms = {package.rpartition(".")[0] for package in packages} - {""}
    graphs: dict[str, dict[str, set[str]]] = {
        room: {child.rpartition(".")[2]: set() for child in imports.find_children(room)} for room in rooms
    }
    for importer in imports.modules:
        for imported in imports.find_modules_directly_imported_by(importer):
            room, first, second = parting(importer, imported)
            if room in graphs and first and second:
                graphs[room][first].add(second)
    return graphs


def parting(importer: str, imported: str) -> tuple[str, str, str]:
    """The package in which the ways to two modules part, and the part of it on each; empty for itself."""
    ours, theirs = importer.split("."), imported.split(".")
    shared = 0
    while shared < min(len(ours), len(theirs)) and ours[shared] == theirs[shared]:
        shared += 1
    return ".".join(ours[:shared]), "".join(ours[shared : shared + 1]), "".join(theirs[shared : shared + 1])


def cycles_in(graph: Graph) -> list[set[str]]:
    """Parts that reach each other, in groups."""
    reached = {part: _reached_from(part, graph) for part in graph}
    groups: list[set[str]] = []
    for part in sorted(graph):
        group = {other for other in reached[part] if part in reached[other]}
        if group and group not in groups:
            groups.append(group)
    return groups


def _reached_from(part: str, graph: Graph) -> set[str]:
    found: set[str] = set()
    left = [part]
    while left:
        for other in graph[left.pop()] - found:
            found.add(other)
            left.append(other)
    return found


def layers_of(graph: Graph) -> list[list[str]]:
    """Parts from the top down, each above all that it imports; those in a cycle are side by side."""
    reached = {part: _reached_from(part, graph) for part in graph}
    by_height: dict[int, list[str]] = defaultdict(list)
    for part in sorted(graph):
        by_height[len(reached[part])].append(part)
    return [by_height[height] for height in sorted(by_height, reverse=True)]


def main() -> int:
    parser = argparse.ArgumentParser(description="The graph of imports inside each room.")
    parser.add_argument("rooms", nargs="*", help="print these, such as scheduler or cluster.agent")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    graphs = parts_of_packages()
    for name in options.rooms:
        graph = graphs[f"{ROOT}.{name}"]
        print(name)
        for layer in layers_of(graph):
            for part in layer:
                print(f"    {part:24}{' '.join(sorted(graph[part]))}")
    if not options.rooms:
        for room, graph in sorted(graphs.items()):
            uses = sum(map(len, graph.values()))
            print(f"{room:44}{len(graph):>4} parts {uses:>5} uses")
    tangled = {room: cycles_in(graph) for room, graph in graphs.items() if cycles_in(graph)}
    for room, cycles in sorted(tangled.items()) if options.check else ():
        for cycle in cycles:
            print(f"{room}: {', '.join(sorted(cycle))} import each other", file=sys.stderr)
    return 1 if options.check and tangled else 0


if __name__ == "__main__":
    sys.exit(main())
