"""A run as a sequence chart in SVG, for the README and the galleries, from the data of run pages.

The same run gives the same bytes, because the widths of texts are estimated, not measured. The picture adapts to the
reader's light or dark mode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import atan2, cos, sin
from pathlib import Path
from typing import Any

from highwater.checker.engines.by_name import search
from highwater.checker.report.counterexample import follow_all
from highwater.checker.report.page.content import content
from highwater.checker.report.page.run import counterexamples
from highwater.checker.scenarios.request import Overrides, Request
from highwater.checker.scenarios.scenario_files import find
from highwater.checker.scenarios.search import SearchOptions

SCENARIO, PROPERTY = "truncation/truncate-to-hwm", "weak_isr"
LEFT, LANE, TOP, ROW, FOOT = 372, 104, 38, 34, 64
WIDTHS = {"leader": 16, "isr": 11, "elr": 11, "fenced": 7}
STYLE = Path(__file__).with_name("picture.css")


def picture() -> str:
    """The README's counterexample as SVG."""
    model = Request.of(find(SCENARIO), Overrides(properties=(PROPERTY,))).model()
    result = search("interpreter")(model, SearchOptions(stop_at_first=True), None)
    (run,) = counterexamples(model, result.violations, follow_all(model, result.violations))
    return svg(content("", [run])["runs"][0])


def svg(run: dict[str, Any]) -> str:
    """The SVG of a run's chart, with the logs of the last state below it.

    ``run`` is as in ``highwater.checker.report.page.content``.
    """
    lanes, steps = run["chart"]["lanes"], run["steps"]
    bold = run["falseAt"]
    widest = max((7.6 if i in bold else 7) * len(step["sentence"]) for i, step in enumerate(steps))
    more = max(0, 50 + round(widest) - LEFT)
    width = LEFT + LANE * len(lanes) + more
    end = TOP + ROW * len(steps)
    place = f' x="{-more}"' if more else ""
    parts = [*_bars(run, end), *_heads(run), *_arrows(run), *_steps(run, more), *_logs(run, end, more)]
    title = f"{run['title']} {run['subtitle']}: {'; '.join(step['sentence'] for step in steps[1:])}."
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-more} 0 {width} {end + FOOT}" width="{width}" '
            f'height="{end + FOOT}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{STYLE.read_text(encoding='utf-8')}</style>",
            f'<rect class="ground"{place} width="{width}" height="{end + FOOT}" rx="8"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _x(lane: int) -> int:
    return LEFT + LANE * lane + LANE // 2


def _y(row: int) -> int:
    return TOP + ROW * row + ROW // 2


def _text(x: float, y: float, said: str, kind: str = "", anchor: str = "") -> str:
    given = f' class="{kind}"' * bool(kind) + f' text-anchor="{anchor}"' * bool(anchor)
    return f'<text x="{x:g}" y="{y:g}"{given}>{escape(said)}</text>'


def _heads(run: dict[str, Any]) -> Iterator[str]:
    for i, (title, _) in enumerate(run["chart"]["lanes"]):
        yield _text(_x(i), 24, title, "head", "middle")


def _steps(run: dict[str, Any], more: int) -> Iterator[str]:
    for i, step in enumerate(run["steps"]):
        kind = "wrong" if i in run["falseAt"] else ""
        yield _text(24 - more, _y(i) + 5, str(step["number"]), "soft", "end")
        yield _text(34 - more, _y(i) + 5, step["sentence"], kind)
        lane = run["chart"]["places"][i]
        if lane is not None:
            yield f'<circle class="dot" cx="{_x(lane)}" cy="{_y(i)}" r="5"/>'


def _bars(run: dict[str, Any], end: int) -> Iterator[str]:
    """The vertical line of each lane; within the first band, it is a bar that shows the lane's sign in each state."""
    band = run["chart"]["bands"][0]
    for lane in range(len(run["chart"]["lanes"])):
        x, place = _x(lane), lane - band["first"]
        if not 0 <= place < len(band["signs"][0]):
            yield f'<line class="line" x1="{x}" x2="{x}" y1="{TOP}" y2="{end - 6}"/>'
            continue
        for sign, first, last in _spans([signs[place] for signs in band["signs"]]):
            top, bottom = (_y(first) if first else TOP), (_y(last) if last < len(band["signs"]) else end - 6)
            if wide := WIDTHS.get(sign):
                yield f'<rect class="{sign}" x="{x - wide / 2:g}" y="{top}" width="{wide}" height="{bottom - top}"/>'
            else:
                yield f'<line class="out" x1="{x}" x2="{x}" y1="{top}" y2="{bottom}"/>'


def _spans(signs: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """The stretches of states with one sign: the sign, the first state's index, and the index after the last state."""
    first = 0
    for i in range(1, len(signs) + 1):
        if i == len(signs) or signs[i] != signs[first]:
            yield signs[first], first, i
            first = i


def _arrows(run: dict[str, Any]) -> Iterator[str]:
    for arrow in run["chart"]["arrows"]:
        last = len(run["steps"]) - 1 if arrow["end"] is None else arrow["end"]
        x1, y1, x2, y2 = _x(arrow["from"]), _y(arrow["start"]), _x(arrow["to"]), _y(last)
        side = 1 if x2 > x1 else -1
        x1, x2 = x1 + side * 9, x2 - side * 10
        yield f'<path class="shaft" d="M{x1} {y1}L{x2} {y2}"/><path class="mark" d="{_head(x1, y1, x2, y2)}"/>'
        # The title is in the gap before the receiver's lane, if the arrow is long enough to remain visible.
        part = 1 - (LANE / 2 - 9) / abs(x2 - x1)
        x, y = x1 + (x2 - x1) * part, y1 + (y2 - y1) * part
        wide = 6.2 * len(arrow["title"]) + 4
        if wide + 30 < abs(x2 - x1):
            yield f'<rect class="said-ground" x="{x - wide / 2:.1f}" y="{y - 8:.1f}" width="{wide:.1f}" height="14"/>'
            yield _text(round(x, 1), round(y + 3, 1), arrow["title"], "said", "middle")


def _head(x1: float, y1: float, x2: float, y2: float) -> str:
    angle = atan2(y2 - y1, x2 - x1)

    def at(along: float, aside: float) -> str:
        x = x2 + along * cos(angle) - aside * sin(angle)
        y = y2 + along * sin(angle) + aside * cos(angle)
        return f"{x:.1f} {y:.1f}"

    return f"M{at(0, 0)}L{at(-9, -4)}L{at(-9, 4)}Z"


def _logs(run: dict[str, Any], end: int, more: int) -> Iterator[str]:
    """The replicas' logs in the last state, each below its lane: records, dropped records, and the HWM.

    ``end`` is the vertical position of the chart's lower end. ``more`` widens the picture on the left.
    """
    yield _text(34 - more, end + 26, "their logs in the end, with the HWM", "soft")
    for log in run["chart"]["logs"]:
        if log["lane"] is None:
            continue
        records, marks = log["states"][-1]
        dropped = log["states"][-2][0][len(records) :]
        x = _x(log["lane"]) - 24 * max(1, len(records) + len(dropped)) // 2
        for i, record in enumerate((*records, *dropped)):
            yield f'<rect class="cell" x="{x + 24 * i}" y="{end + 10}" width="22" height="24" rx="3"/>'
            if i < len(records):
                yield _text(x + 24 * i + 11, end + 26, "·".join(record), "said", "middle")
            else:
                left = x + 24 * i + 5
                yield f'<path class="gone" d="M{left} {end + 16}l12 12m0 -12l-12 12"/>'
        for _, offset in marks:
            at = x + 24 * offset - 1
            yield f'<path class="hwm" d="M{at} {end + 5}v34"/>'
            yield _text(at, end + 54, f"HWM {offset}", "said", "middle")
