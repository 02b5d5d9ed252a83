"""Takes out of kubectl's output what differs between two runs on equal servers.

Ids, revisions, times, ages, ports, addresses, tokens and temporary paths become ``<words>``; runs of spaces
become two, because a column is as wide as its longest id. Everything else stays, order included.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

_AGE: Final = r"(?:\d+[smhdy]){1,2}"

_RULES: Final[list[tuple[re.Pattern[str], str]]] = [
    (re.compile(pattern, re.MULTILINE), replacement)
    for pattern, replacement in [
        # kubectl's own log lines: level, date, process id
        (r"^([EIWF])\d{4} [\d:.]+ +\d+ (\w+\.go):\d+\]", r"\1 \2]"),
        # whether client-go notices first that it is told to stop or that the stream has ended is chance
        (r"^[WI] reflector\.go\].*very short watch: .*\n", ""),
        (r"\beyJ[\w-]+\.[\w-]+\.[\w-]+", "<token>"),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uid>"),
        (r"X509SHA256=[0-9a-f]+", "X509SHA256=<hash>"),
        (r"hash=[0-9A-F]{32,}", "hash=<hash>"),
        (r"(https?://)?127\.0\.0\.1:\d+", "<server>"),
        (r"\bv1\.36\.\d+(\+[\w.-]+)?", "<version>"),
        # the version of the stock kubectl's build, which the two servers see alike
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| ?[+-]\d\d:?\d\d( UTC)?)", "<time>"),
        (r"\b\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
        (r'("?resourceVersion"?: *)"\d+"', r'\1"<rv>"'),
        # the whole object, in the order of Go's fields
        (r'patch: Invalid value: "\{.*\}": ', 'patch: Invalid value: "<object>": '),
        # the suffix of a generated name
        (r"\b(made-)[bcdfghjklmnpqrstvwxz2456789]{5}\b", r"\1<suffix>"),
        (r"(Resource Version:\s+)\d+", r"\1<rv>"),
        (r'("?remainingItemCount"?: *)\d+', r"\1<n>"),
        (r"\b10\.0\.\d{1,3}\.\d{1,3}\b", "<ip>"),
        (r"([nN]ode[pP]ort\"?: *)3[0-2]\d{3}\b", r"\1<nodeport>"),
        (r"(?<=\d:)3[0-2]\d{3}(?=/)", "<nodeport>"),
        (r"(NodePort: +\S+ +)3[0-2]\d{3}\b", r"\1<nodeport>"),
        (r"/tmp/(LIVE|MERGED)-\d+", r"/tmp/\1"),
        (r"kubectl-edit-\d+", "kubectl-edit"),
        (rf"(^|(?<=\s\s)){_AGE}(?=\s|$)", "<age>"),
        (rf"\b{_AGE} ago\b", "<age> ago"),
        (rf"\(x(\d+) over {_AGE}\)", r"(x\1 over <age>)"),
        (rf"\({_AGE}\)", "(<age>)"),
        (rf"^(\s*[\w -]*(?:Age|Duration): +){_AGE}$", r"\1<age>"),
        (r"(?<=\S) {2,}", "  "),
        (r"[ \t]+$", ""),
    ]
]


def explain(text: str) -> str:
    """Leave out descriptions, which the embedded server does not ship for built-in kinds."""
    kept: list[str] = []
    section = ""
    for line in text.splitlines():
        if re.match(r"[A-Z]+:", line):
            section = line.split(":")[0]
        is_text = section == "DESCRIPTION" or (
            section in ("FIELDS", "FIELD") and not re.search(r"\t<|<.*>\t|^[A-Z]+:|^\s*enum: ", line)
        )
        if line.strip() and not is_text:
            kept.append(line)
    return "\n".join(kept) + "\n" if kept else ""


def whoami(text: str) -> str:
    """The name of the kubeconfig's user is each server's own choice."""
    return re.sub(r"(?m)^(Username\s+|\s*username: |.*user-extra for )\S+", r"\1<user>", text)


def raw(text: str) -> str:
    """JSON as the server sent it: its keys have no order. The newline at the end stays as it was."""
    try:
        document = json.loads(text)
    except ValueError:
        return text
    match document:
        case {"metadata": {"managedFields": [*entries]}}:
            # by time, and so by how fast the commands ran
            document["metadata"]["managedFields"] = sorted(entries, key=lambda entry: str(entry["manager"]))
    return json.dumps(document, indent=1, sort_keys=True) + text[len(text.rstrip("\n")) :]


_FORMS: Final[dict[str, Callable[[str], str]]] = {"explain": explain, "whoami": whoami, "json": raw}


def normalise(text: str, *, form: str = "", sort: bool = False, drop: str = "", directory: str = "") -> str:
    """The text without what may differ; form, sort and drop are the step's keys of the same names."""
    if directory:
        text = text.replace(directory, "<tmp>")
    if form:
        text = _FORMS[form](text)
    if drop:
        text = "".join(line for line in text.splitlines(keepends=True) if not re.search(drop, line))
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    if sort:
        text = "".join(sorted(text.splitlines(keepends=True)))
    return text
