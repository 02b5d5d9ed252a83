"""Which resources are served: built-in ones from the start, custom ones as CRDs come and go."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from .resource import Resource

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Sorts GA before beta before alpha, then by number downwards, then other names by alphabet."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[found[2]]
    return (stage, -int(found[1]), -int(found[3] or 0), "")


class ResourceTable:
    """Lookup by group, version and plural. `generation` grows with every change."""

    def __init__(self) -> None:
        self._served: dict[tuple[str, str], dict[str, Resource]] = {}
        self._builtin_groups: dict[str, list[str]] = {}
        self._versions: dict[tuple[str, str], list[Resource]] = {}
        self.generation = 0
        self.on_change: list[Callable[[], None]] = []

    def add_builtin(self, resource: Resource) -> None:
        versions = self._builtin_groups.setdefault(resource.group, [])
        if resource.version not in versions:
            versions.append(resource.version)
        self._served.setdefault((resource.group, resource.version), {})[resource.plural] = resource
        self._versions.clear()

    def replace_custom(self, gone: list[Resource], new: list[Resource]) -> None:
        """Swap the versions of a CRD in one step. What is built in stays, whatever a definition claims."""
        for resource in gone:
            known = self._served.get((resource.group, resource.version), {})
            if known.get(resource.plural) is resource:
                del known[resource.plural]
            if not known:
                self._served.pop((resource.group, resource.version), None)
        for resource in new:
            known = self._served.setdefault((resource.group, resource.version), {})
            if resource.plural not in known or known[resource.plural].is_custom:
                known[resource.plural] = resource
        self._versions.clear()
        self.generation += 1
        for notify in self.on_change:
            notify()

    def get(self, group: str, version: str, plural: str) -> Resource | None:
        served = self._served.get((group, version))
        return None if served is None else served.get(plural)

    def is_builtin_group(self, group: str) -> bool:
        return group in self._builtin_groups

    def groups(self) -> list[tuple[str, list[str]]]:
        """(group, versions) with the built-in groups first; versions by priority, preferred one first.

        A version that a definition adds to a built-in group has, as upstream gives it, a higher priority
        than all that are built in.
        """
        custom: dict[str, list[str]] = {}
        for group, version in self._served:
            if version not in self._builtin_groups.get(group, ()):
                custom.setdefault(group, []).append(version)
        for versions in custom.values():
            versions.sort(key=version_priority)
        groups = [
            (group, custom.pop(group, []) + list(versions))
            for group, versions in self._builtin_groups.items()
        ]
        return groups + sorted(custom.items())

    def resources(self, group: str, version: str) -> list[Resource]:
        return list(self._served.get((group, version), {}).values())

    def all(self) -> Iterator[Resource]:
        for served in self._served.values():
            yield from served.values()

    def versions_of(self, group: str, plural: str) -> Sequence[Resource]:
        """Every served version of one resource."""
        found = self._versions.get((group, plural))
        if found is None:
            found = self._versions[group, plural] = [
                served[plural]
                for (known_group, _), served in self._served.items()
                if known_group == group and plural in served
            ]
        return found

    def find_kind(self, group: str, version: str, kind: str) -> Resource | None:
        for resource in self._served.get((group, version), {}).values():
            if resource.kind == kind and resource.bucket is not None:
                return resource
        return None
