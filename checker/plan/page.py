"""The answer to a question about a plan as an HTML page without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

from highwater.checker.plan.answer import NAMES, PlanAnswer, Risk
from highwater.checker.plan.report import (
    TITLES,
    headline,
    notes,
    now_line,
    outcome_table,
    run_steps,
    title_of,
)
from highwater.traces.reading import printable
from highwater.traces.reports.text import count

MOST_KINDS = 100
"""The most kinds that the page shows for each outcome."""
_STYLE = """
:root { color-scheme: light dark } body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: auto;
padding: 1rem }
h1 { font-size: 1.3rem } h2 { font-size: 1.1rem; margin-top: 2rem } td, th { padding: .2rem .6rem; text-align: left }
table { border-collapse: collapse; display: block; overflow-x: auto } tr { border-bottom: 1px solid #8884 }
ol.plan { display: flex; flex-wrap: wrap; gap: .5rem; list-style: none; padding: 0 } ol.plan li { padding: .2rem .7rem;
border: 1px solid #8888; border-radius: 1rem } summary { cursor: pointer }
td.leader { background: #1a7f37; color: #fff }
td.isr { background: #1a7f3755 } td.elr { background: #bf870055 } td.down { text-decoration: line-through; opacity: .6 }
"""


def write_page(found: PlanAnswer, file: Path) -> None:
    """Write the page. Raises OSError."""
    file.write_text("\n".join(_page(found)), encoding="utf-8")


def _page(found: PlanAnswer) -> Iterator[str]:
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Highwater plan</title>'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
    yield f"<h1>{_text(headline(found))}</h1><ol class=plan>"
    yield from (f"<li>{_text(step.text)}</li>" for step in found.plan.steps)
    yield f"</ol><p>Up to {count(found.faults, 'fault')}; rules {found.cluster.profile}</p>"
    yield from _rows(outcome_table(found))
    if found.instead is not None:
        yield f"<p><strong>Instead: {_text(found.instead.text)}</strong>: it adds no risk for "
        yield f"{found.instead.of - found.instead.left:,} of {found.instead.of:,} partitions.</p>"
    for outcome in NAMES:
        own = [f for f in found.findings if f.outcome == outcome][:MOST_KINDS]
        yield f"<h2>{_text(TITLES[outcome])}</h2>" * bool(own)
        for finding in own:
            yield f"<details><summary>{_text(title_of(finding))}</summary>"
            yield f"<p>Now: {_text(now_line(found, finding))}</p>"
            yield from _run(found, finding)
            yield "</details>"
    yield from (f"<p>{_text(note)}</p>" for note in notes(found))
    yield "</body></html>"


def _rows(rows: Iterable[list[str]]) -> Iterator[str]:
    cells = ("".join(f"<td>{_text(cell)}</td>" for cell in row) for row in rows)
    yield f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _run(found: PlanAnswer, finding: Risk) -> Iterator[str]:
    """A run as a table: a row for each step, and a column for each broker with its role after the step."""
    brokers = finding.kind.partitions[0][1]
    yield f"<table><tr><th></th>{''.join(f'<th>broker {b}</th>' for b in brokers)}</tr>"
    for step in run_steps(found, finding):
        roles = "".join(f'<td class="{role}">{role}</td>' for role in step.roles)
        yield f"<tr><td>{_text(step.sentence)}</td>{roles}</tr>"
    yield "</table>"


def _text(text: str) -> str:
    return escape(printable(text, 2000))
