"""What images are called. Pure."""

from __future__ import annotations

import re
from typing import Final

_LABEL: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST: Final = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_TAG: Final = r"\w[\w.-]{0,127}"
_DIGEST: Final = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_NAME: Final = re.compile(rf"{_HOST}(?:/{_PART})+(?::{_TAG})?(?:@{_DIGEST})?", re.ASCII)
_IDENTIFIER: Final = re.compile("[a-f0-9]{64}")
_MOST_LETTERS: Final = 255


def full_name(image: str) -> str:
    """The image with registry and tag."""
    first, slash, _ = image.partition("/")
    if not slash:
        image = f"docker.io/library/{image}"
    elif not ("." in first or ":" in first or first == "localhost"):
        image = f"docker.io/{image}"
    last = image.rsplit("/", 1)[-1]
    return image if ":" in last or "@" in last else f"{image}:latest"


def name_problem(image: str) -> str:
    """What is wrong with an image's name, in the words of those who parse it; empty if nothing is."""
    if _IDENTIFIER.fullmatch(image):
        return f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"
    host, _, rest = full_name(image).partition("/")
    if len(f"{host}/{re.split('[:@]', rest)[0]}") > _MOST_LETTERS:
        return f"repository name must not be more than {_MOST_LETTERS} characters"
    remote = rest.partition(":")[0]
    if remote.lower() != remote:
        return f"invalid reference format: repository name ({remote}) must be lowercase"
    return "" if _NAME.fullmatch(f"{host}/{rest}") else "invalid reference format"
