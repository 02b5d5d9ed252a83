"""Write the options reference, docs/runtime/options.md, from the structs that hold the options.

    python tools/options_reference.py [--check]

`--check` writes nothing and fails when the page is out of date.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import msgspec

from quarterdeck.api._docstring import field_docs
from quarterdeck.runtime import CacheOptions, ControllerOptions, KindOptions, ManagerOptions
from quarterdeck.runtime.cache import WatchSettings
from quarterdeck.runtime.election import LeaderElection
from quarterdeck.runtime.webhook import WebhookOptions, WebhookSettings

PAGE = Path(__file__).resolve().parent.parent / "docs" / "runtime" / "options.md"
_HEAD = """# Options

Generated from the code by `tools/options_reference.py`; do not edit. Times are seconds.
"""
_PARTS: tuple[tuple[str, str, type[msgspec.Struct]], ...] = (
    ("Controller", "`builder.options(name=value, …)`, one by one.", ControllerOptions),
    ("Manager", "`Manager(…, options=ManagerOptions(…))`.", ManagerOptions),
    (
        "Cache",
        (
            "`WatchSettings(…)`, for one list and watch. What is not given is taken from the next of: the "
            "kind in one namespace, the kind, the namespace, the cache; last, everything is cached but "
            "managedFields."
        ),
        WatchSettings,
    ),
    ("Cache, of one kind", "`by_kind={Pod: KindOptions(…)}`; also everything above.", KindOptions),
    ("Cache, as a whole", "`Manager(…, cache=CacheOptions(…))`; also everything above.", CacheOptions),
    ("Leader election", "`Manager(…, leader_election=LeaderElection(…))`.", LeaderElection),
    ("Webhook server", "`WebhookServer(WebhookOptions(…))`.", WebhookOptions),
    ("Admission handlers", "`Validator(kind, check, name=value, …)`, likewise `Defaulter`.", WebhookSettings),
)


def page() -> str:
    parts = [_HEAD]
    shown: set[str] = set()
    for title, use, options in _PARTS:
        parts.append(f"\n## {title}\n\n{use}\n\n| option | default | meaning |\n|---|---|---|\n")
        docs = field_docs(options)
        inherited = shown if issubclass(options, WatchSettings) and options is not WatchSettings else set()
        for field in msgspec.structs.fields(options):
            if field.name not in inherited:
                meaning = _text(docs.get(field.name, ""))
                parts.append(f"| `{field.name}` | {_default(options, field)} | {meaning} |\n")
                shown.add(field.name)
    return "".join(parts)


def _default(options: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "*from the kind*" if options is WebhookSettings else "*required*"
    default = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    if default is msgspec.UNSET:
        return "*inherited*"
    if isinstance(default, float):
        return f"`{default:g}`"
    return f'`"{default}"`' if isinstance(default, str) else f"`{default}`"


def _text(doc: str) -> str:
    """One line of Markdown of a docstring."""
    return re.sub(r"``(.+?)``", r"`\1`", " ".join(doc.split())).replace("|", "\\|")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    wanted = page()
    if PAGE.exists() and PAGE.read_text() == wanted:
        return 0
    if options.check:
        print(f"{PAGE} is out of date: run tools/options_reference.py", file=sys.stderr)
        return 1
    PAGE.write_text(wanted)
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
