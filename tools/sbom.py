"""The software bill of materials: ``python tools/sbom.py > sbom.json`` (CycloneDX 1.6, JSON).

Lists what a user of the wheel gets: the dependencies that are installed here, theirs, and the JavaScript
module that is shipped inside. Extras and tools of development are not in it.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent
MODULE = ROOT / "src" / "quarterdeck" / "dashboard" / "page" / "vendor" / "htm-preact.js"
VENDORED = (("htm", "3.1.1", "Apache-2.0"), ("preact", "10", "MIT"))
"""Of the second only the major version is known: it came inside of the first."""


def main() -> int:
    json.dump(bill(), sys.stdout, indent=1)
    print()
    return 0


def bill() -> Json:
    """The whole document; the same for the same packages."""
    own = distribution("quarterdeck")
    found = dict(sorted(_closure(own).items()))
    components = [_component(each) for name, each in found.items() if name != "quarterdeck"]
    digest = hashlib.sha256(MODULE.read_bytes()).hexdigest()
    components += [
        {
            "type": "library",
            "bom-ref": f"pkg:npm/{name}@{version}",
            "name": name,
            "version": version,
            "purl": f"pkg:npm/{name}@{version}",
            "licenses": [{"license": {"id": licence}}],
            "hashes": [{"alg": "SHA-256", "content": digest}],
            "description": "part of htm-preact.js, which is shipped in the wheel",
        }
        for name, version, licence in VENDORED
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**_component(own), "type": "application"}},
        "components": components,
        "dependencies": [
            {
                "ref": _purl(each),
                "dependsOn": sorted(_purl(found[name]) for name in _needs(each) if name in found),
            }
            for each in found.values()
        ],
    }


def _closure(top: Distribution) -> dict[str, Distribution]:
    found: dict[str, Distribution] = {}
    waiting = [top]
    while waiting:
        each = waiting.pop()
        name = _normal(each.name)
        if name in found:
            continue
        found[name] = each
        for need in _needs(each):
            try:
                waiting.append(distribution(need))
            except PackageNotFoundError:
                continue  # of another platform or another Python
    return found


def _needs(each: Distribution) -> list[str]:
    """The names of what it needs, without its extras."""
    return [
        _normal(re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0])
        for text in each.requires or ()
        if "extra ==" not in text
    ]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _purl(each: Distribution) -> str:
    return f"pkg:pypi/{_normal(each.name)}@{each.version}"


def _component(each: Distribution) -> Json:
    made = {
        "type": "library",
        "bom-ref": _purl(each),
        "name": each.name,
        "version": each.version,
        "purl": _purl(each),
    }
    licence = each.metadata.get("License-Expression") or each.metadata.get("License") or ""
    if licence and "\n" not in licence:
        made["licenses"] = [
            {"expression" if " " in licence else "license": licence if " " in licence else {"name": licence}}
        ]
    return made


if __name__ == "__main__":
    sys.exit(main())
