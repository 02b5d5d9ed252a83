"""Names of kinds, resources and objects, as small hashable values."""

from typing import NamedTuple, Self


class GroupKind(NamedTuple):
    """A kind without its version: what owner references and RBAC rules are about."""

    group: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind}.{self.group}" if self.group else self.kind


class GroupVersion(NamedTuple):
    """An API version; the core group is the empty string."""

    group: str
    version: str

    @classmethod
    def parse(cls, api_version: str) -> Self:
        """``apps/v1`` → (apps, v1); ``v1`` → ("", v1)."""
        group, _, version = api_version.rpartition("/")
        return cls(group, version)

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class GroupVersionKind(NamedTuple):
    """The full name of a kind."""

    group: str
    version: str
    kind: str

    @classmethod
    def parse(cls, api_version: str, kind: str) -> Self:
        """From the two fields every object carries."""
        group, _, version = api_version.rpartition("/")
        return cls(group, version, kind)

    @property
    def api_version(self) -> str:
        """``group/version``, or just the version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> GroupKind:
        """The name without the version."""
        return GroupKind(self.group, self.kind)

    @property
    def group_version(self) -> GroupVersion:
        """The name without the kind."""
        return GroupVersion(self.group, self.version)

    def __str__(self) -> str:
        return f"{self.api_version}, Kind={self.kind}"


class GroupVersionResource(NamedTuple):
    """The full name of a resource: what stands in URLs."""

    group: str
    version: str
    resource: str

    @property
    def api_version(self) -> str:
        """``group/version``, or just the version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def prefix(self) -> str:
        """The URL prefix: ``/api/v1`` or ``/apis/<group>/<version>``."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def __str__(self) -> str:
        return f"{self.api_version}, Resource={self.resource}"


class Key(NamedTuple):
    """The name of one object: namespace (empty when cluster-scoped), name, and cluster in a fleet."""

    namespace: str
    name: str
    cluster: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """``ns/name`` or ``name``."""
        namespace, _, name = text.rpartition("/")
        return cls(namespace, name)

    def __str__(self) -> str:
        text = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.cluster}:{text}" if self.cluster else text
