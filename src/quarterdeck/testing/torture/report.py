"""A campaign told: as text, JSON, JUnit's XML, or one HTML page. Pure."""

import shlex
from collections.abc import Callable, Mapping
from html import escape
from typing import Final
from xml.sax.saxutils import escape as xml_escape
from xml.sax.saxutils import quoteattr

import msgspec

from quarterdeck.testing.torture.finding import Finding
from quarterdeck.testing.torture.perturbation import PATTERNS


class Report(msgspec.Struct):
    """What was tried and what was found."""

    steps: tuple[str, ...] = ()
    """The workload."""
    writes: int = 0
    """Writes of the operator in an undisturbed run."""
    watched: tuple[str, ...] = ()
    planned: int = 0
    runs: int = 0
    """Disturbed runs, without those that repeat and shrink."""
    by_pattern: dict[str, int] = {}
    findings: list[Finding] = []
    seconds: float = 0.0
    is_complete: bool = False
    """Whether everything that was planned was tried in time."""


def as_text(report: Report, command: str = "") -> str:
    """For a terminal; ``command`` does a run again whose seed takes the place of ``%s``."""
    lines = []
    for number, each in enumerate(report.findings, 1):
        certain = "" if each.is_certain else " (seen once, not again when it was repeated)"
        lines += [
            f"finding {number} [{each.pattern}, {each.oracle}]{certain}",
            f"  {each.sentence}",
            "  steps:",
        ]
        lines += [f"    {place}. {step}" for place, step in enumerate(each.steps)]
        if each.diff:
            lines += ["  differences:", *(f"    {line}" for line in each.diff)]
        lines += [f"  seen in {each.seen} run{'s' if each.seen > 1 else ''}"]
        lines += [
            f"  again: {command.replace('%s', shlex.quote(each.seed))}"
            if command
            else f"  seed: {each.seed}",
            "",
        ]
    lines.append(summary(report))
    return "\n".join(lines)


def summary(report: Report) -> str:
    """One line."""
    found = len(report.findings)
    extent = "all" if report.is_complete else f"{report.runs} of {report.planned}"
    return (
        f"{found or 'no'} finding{'' if found == 1 else 's'} in {report.runs} disturbed runs "
        f"({extent} planned) in {report.seconds:.0f} s"
    )


def as_json(report: Report) -> str:
    """For other programs."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def as_junit(report: Report) -> str:
    """For CI: a test for each pattern that was tried, a failure for each finding."""
    failing: dict[str, list[Finding]] = {}
    for each in report.findings:
        failing.setdefault(each.pattern, []).append(each)
    cases = []
    for pattern in sorted({*report.by_pattern, *failing, "undisturbed"}):
        inner = "".join(
            f"<failure message={quoteattr(each.sentence)}>{xml_escape(_details(each))}</failure>"
            for each in failing.get(pattern, [])[:1]
        )
        cases.append(f'<testcase classname="torture" name={quoteattr(pattern)}>{inner}</testcase>')
        for each in failing.get(pattern, [])[1:]:
            inner = f"<failure message={quoteattr(each.sentence)}>{xml_escape(_details(each))}</failure>"
            cases.append(f'<testcase classname="torture" name={quoteattr(each.seed)}>{inner}</testcase>')
    attributes = (
        f'name="torture" tests="{len(cases)}" failures="{len(report.findings)}" time="{report.seconds:.1f}"'
    )
    return f'<?xml version="1.0" encoding="utf-8"?>\n<testsuite {attributes}>{"".join(cases)}</testsuite>\n'


def _details(each: Finding) -> str:
    return "\n".join([f"seed: {each.seed}", *each.steps, *each.diff, each.log])


_PAGE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Torture</title>
<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
pre{background:#f4f4f4;padding:.7rem;overflow:auto}section{border-top:1px solid #ccc;padding:1rem 0}
code{background:#f4f4f4}td{padding-right:2rem}</style>
<h1>Torture</h1>
"""


def as_html(report: Report) -> str:
    """One page that needs nothing else."""
    parts = [_PAGE, f"<p>{escape(summary(report))}</p><table>"]
    parts += [
        f"<tr><td>{escape(pattern)}</td><td>{runs}</td><td>{escape(PATTERNS[pattern])}</td></tr>"
        for pattern, runs in sorted(report.by_pattern.items())
    ]
    parts.append("</table>")
    for each in report.findings:
        steps = "".join(f"<li>{escape(step)}</li>" for step in each.steps)
        parts.append(
            f"<section><h2>{escape(each.pattern)}: {escape(each.oracle)}</h2><p>{escape(each.sentence)}</p>"
            f'<ol start="0">{steps}</ol><pre>{escape(chr(10).join(each.diff))}</pre>'
            f"<p>Seed <code>{escape(each.seed)}</code></p>"
            f"<details><summary>output of the operator</summary><pre>{escape(each.log)}</pre></details>"
            "</section>"
        )
    return "".join([*parts, "</html>\n"])


FORMATS: Final[Mapping[str, Callable[[Report], str]]] = {
    ".json": as_json,
    ".xml": as_junit,
    ".html": as_html,
    ".txt": as_text,
}
"""By the ending of the file's name."""
