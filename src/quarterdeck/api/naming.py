"""The one place where Python names meet wire names.

Kubernetes writes camelCase with capital acronyms (``podIP``, ``clusterID``, ``nonResourceURLs``); Python
reads snake_case. The mapping is a function, not a table of fields: words listed in ``ACRONYMS`` are
written in capitals unless they come first. A field that breaks the rule (``storageUri``) names its wire
form itself with ``field(name=...)``.

A trailing underscore is dropped, so that ``from_`` can be a field called ``from``.
"""

import keyword
import re
from functools import cache
from typing import Final

ACRONYMS: Final[dict[str, str]] = {
    "cidr": "CIDR",
    "cidrs": "CIDRs",
    "fqdn": "FQDN",
    "gpu": "GPU",
    "id": "ID",
    "ids": "IDs",
    "ip": "IP",
    "ipc": "IPC",
    "ips": "IPs",
    "pid": "PID",
    "uid": "UID",
    "uri": "URI",
    "url": "URL",
    "urls": "URLs",
    "uuid": "UUID",
    "wwns": "WWNs",
}
"""Words written in capitals on the wire when they are not the first word of a name."""

_WORD: Final = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])\d*|[A-Z]?[a-z0-9]+|[^A-Za-z0-9]+")
_RESERVED: Final = frozenset(keyword.kwlist) | {
    "bool",
    "bytes",
    "dict",
    "float",
    "int",
    "list",
    "str",
    "tuple",
}


@cache
def to_wire(name: str) -> str:
    """``pod_ip`` → ``podIP``, ``api_version`` → ``apiVersion``, ``from_`` → ``from``."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(ACRONYMS.get(word) or word[:1].upper() + word[1:] for word in rest)


@cache
def to_python(name: str) -> str:
    """``podIP`` → ``pod_ip``; keywords and names of annotation types get a trailing underscore."""
    words = [w.lower() for w in _WORD.findall(name) if w[0].isalnum()]
    snake = "_".join(words)
    return f"{snake}_" if snake in _RESERVED or not snake.isidentifier() else snake
