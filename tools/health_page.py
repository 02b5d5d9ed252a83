"""The situations that health knows, as a page: written from the table in the code.

python tools/health_page.py [--check]     writes docs/health.md, or fails if it is out of date
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from quarterdeck.health import SEVERITIES, SITUATIONS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "health.md"
HEAD = """\
# Health

What is wrong in a cluster is judged in one place, from the state of its objects, and told the same
everywhere: on the [page](dashboard.md) under *Needs attention*, by `quarterdeck top`, by `quarterdeck
status` and by `quarterdeck check`. Every problem has a severity, a reason, the objects that have it, since
when, and what to do. The same reason of several objects is one problem.

| severity | means |
|---|---|
| critical | something that should work does not |
| warning | it is worse than it should be, or waits |
| notice | worth knowing, and no reason to wake anybody; `check health` prints it and does not fail |

What takes a moment, such as a container that starts, becomes a problem when it takes too long. What only
happened, such as an eviction, is told for some minutes. That nothing is wrong is said only when everything
was read: what may not be read and a server that does not answer are problems themselves.

The names below are stable. `quarterdeck check health -o json` has them as `health/NAME`, and exits with 1 if
one of them is critical or a warning. `quarterdeck check` tells them beside the invariants.

## Situations

This table is generated from `quarterdeck.health.situation`.

| name | severity | what it means | what to do |
|---|---|---|---|
"""


def page() -> str:
    ordered = sorted(SITUATIONS.items(), key=lambda item: SEVERITIES.index(item[1].severity))
    rows = [
        f"| `{name}` | {each.severity} | {each.meaning} | {_remedy(each.remedy)} |" for name, each in ordered
    ]
    return HEAD + "\n".join(rows) + "\n"


def _remedy(text: str) -> str:
    words = {"{object}": "OBJECT", "{namespace}/{name}": "GANG", "{name}": "NAME", "{namespace}": "NAMESPACE"}
    for field, word in {**words, "{about}": "…"}.items():
        text = text.replace(field, word)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    wanted = page()
    if PAGE.exists() and PAGE.read_text() == wanted:
        return 0
    if options.check:
        print(f"{PAGE} is out of date: run tools/health_page.py", file=sys.stderr)
        return 1
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
