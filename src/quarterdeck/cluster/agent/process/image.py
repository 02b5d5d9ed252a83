"""What an image means where there are no images: rules from a pattern to an entry point. Pure.

images:
  - pattern: "docker.io/library/python:*"
    command: [python3]
  - pattern: "*/grove-initc:*"
    command: [quarterdeck, grove, initc]
    environment: {LOG: info}
    root: /srv/images/initc
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

import msgspec

from quarterdeck.api.model import EMPTY_MAP
from quarterdeck.cluster.image.name import full_name


class ImageRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What images of a pattern stand for."""

    pattern: str
    """A shell pattern for the name as the pod has it, or its full form (``docker.io/library/…:latest``)."""
    command: tuple[str, ...] = ()
    """The entry point; what a container's own ``command`` replaces."""
    args: tuple[str, ...] = ()
    """What a container's own ``args`` replace."""
    environment: Mapping[str, str] = EMPTY_MAP
    root: str = "/"
    """Whose folders the container sees."""
    working_dir: str = ""


def find_image(rules: Sequence[ImageRule], image: str) -> ImageRule | None:
    """The first rule for an image; None if there is none."""
    names = (image, full_name(image))
    return next((rule for rule in rules if any(fnmatchcase(name, rule.pattern) for name in names)), None)
