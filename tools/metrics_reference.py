"""Write the metrics reference, docs/runtime/metrics.md, from the table the runtime registers from.

    python tools/metrics_reference.py [--check]

`--check` writes nothing and fails when the page is out of date.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from quarterdeck.runtime.metrics import GROUPS, Definition
from quarterdeck.runtime.metrics.registry import format_number

PAGE = Path(__file__).resolve().parent.parent / "docs" / "runtime" / "metrics.md"
_HEAD = """# Metrics

Generated from `quarterdeck.runtime.metrics` by `tools/metrics_reference.py`; do not edit.

Names, labels and buckets are those of controller-runtime and client-go: dashboards made for them work here.
What upstream lacks begins with `quarterdeck_`. Counters of a controller, a queue and a webhook exist from the
start, at zero. Metrics marked *opt-in* cost a series per verb and host and are recorded only with
`RuntimeMetrics(client_details=True)`.

A manager serves them at `/metrics`, on loopback unless told otherwise; operators add their own to the same
registry (`metrics.registry`).
"""


def page() -> str:
    parts = [_HEAD]
    for title, definitions in GROUPS.items():
        parts.append(f"\n## {title}\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
        parts += [_row(definition) for definition in definitions]
        buckets = {definition.buckets: definition.name for definition in definitions if definition.buckets}
        for bounds in buckets:
            users = [f"`{definition.name}`" for definition in definitions if definition.buckets == bounds]
            parts.append(f"\nBuckets of {', '.join(users)}: {', '.join(map(format_number, bounds))}.\n")
    return "".join(parts)


def _row(definition: Definition) -> str:
    labels = ", ".join(f"`{label}`" for label in definition.labels)
    kind = f"{definition.kind}, *opt-in*" if definition.opt_in else definition.kind
    return f"| `{definition.name}` | {kind} | {labels} | {definition.help} |\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    wanted = page()
    if PAGE.exists() and PAGE.read_text() == wanted:
        return 0
    if options.check:
        print(f"{PAGE} is out of date: run tools/metrics_reference.py", file=sys.stderr)
        return 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(wanted)
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
