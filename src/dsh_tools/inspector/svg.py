"""The timeline as a picture: one SVG text that stands on its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from xml.sax.saxutils import escape, quoteattr

from .timeline import CallTimes, Span, StepTimes

__all__ = ["timeline_svg"]

Place = Callable[[float], float]

_LABELS = 230
_WIDTH = 1000
_BAR = 14
_ROW = 24
_HEAD = 34

_STYLE = """
svg { font: 12px system-ui, sans-serif; background: #ffffff; }
text { fill: #1f2430; } .dim { fill: #5c6370; } .grid { stroke: #e3e6eb; }
.model { fill: #c9cfda; } .waiting { fill: #dfe3ea; } .policy { fill: #8e7cc3; } .approval { fill: #e0a526; }
.running { fill: #3b7dd8; } .review { fill: #79a8e6; } .commit { fill: #b5c9e3; }
.stopping { fill: #7a4a12; }
.failed .running, .interrupted .running { fill: #c7372f; } .failed text.outcome, .denied text.outcome,
.timed-out text.outcome, .interrupted text.outcome { fill: #a32019; } .cancelled text.outcome { fill: #8a5a00; }
.denied .policy, .denied .approval { fill: #c7372f; } .timed-out .running { fill: #d9622b; }
.cancelled .running { fill: #b08d57; }
@media (prefers-color-scheme: dark) {
  svg { background: #15181e; } text { fill: #e4e7ec; } .dim { fill: #9aa3b2; } .grid { stroke: #2b303a; }
  .model { fill: #454c59; } .waiting { fill: #343a45; }
  .failed text.outcome, .denied text.outcome, .timed-out text.outcome, .interrupted text.outcome { fill: #ff8f85; }
  .cancelled text.outcome { fill: #e5b567; }
}
"""

# What XML 1.0 does not allow in a document, in any spelling.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
# Marks that reorder text around them.
_REORDERS = re.compile("[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]")


def timeline_svg(steps: Sequence[StepTimes], title: str = "") -> str:
    """Draw the steps one below the other, on one time axis in milliseconds from the first step.

    Parameters:
        steps: what :func:`timeline_of` returns.
        title: the heading, such as the session's id.
    """
    begin = min((step.start for step in steps), default=0.0)
    end = max([begin + 1, *(_last(step) for step in steps)])
    scale = (_WIDTH - _LABELS - 110) / (end - begin)

    def x(at: float) -> float:
        return _LABELS + (at - begin) * scale

    body: list[str] = []
    y = _HEAD + 20
    for step in steps:
        body.append(_step_row(step, x, y))
        y += _ROW
        for call in step.calls:
            body.append(_call_row(call, x, y, end))
            y += _ROW
    height = y + 34
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" role="img" aria-label={quoteattr(_plain(title) or "timeline")}>',
            f"<style>{_STYLE}</style>",
            f'<text x="12" y="22" font-weight="600">{_text(title)}</text>',
            *_axis(begin, end, x, y),
            *body,
            _legend(height - 12),
            "</svg>",
            "",
        ]
    )


def _last(step: StepTimes) -> float:
    times = [step.start, step.answered or 0.0, step.end or 0.0]
    times += [call.end or call.start for call in step.calls]
    return max(times)


def _axis(begin: float, end: float, place: Place, bottom: int) -> list[str]:
    lines: list[str] = []
    for part in range(5):
        at = begin + (end - begin) * part / 4
        left = place(at)
        lines.append(f'<line class="grid" x1="{left:.1f}" x2="{left:.1f}" y1="{_HEAD + 8}" y2="{bottom - 8}"/>')
        mark = _duration(at - begin)
        lines.append(f'<text class="dim" x="{left:.1f}" y="{_HEAD}" text-anchor="middle">{mark}</text>')
    return lines


def _step_row(step: StepTimes, place: Place, y: int) -> str:
    answered = step.start if step.answered is None else step.answered
    label = f"turn {step.turn}, step {step.step}" if step.turn else "calls"
    tip = f"{label}: the model answered after {_duration(answered - step.start)}"
    width = max(place(answered) - place(step.start), 1.0)
    return (
        f'<g><title>{_text(tip)}</title><text class="dim" x="12" y="{y + 11}">{_text(label)}</text>'
        f'<rect class="model" x="{place(step.start):.1f}" y="{y + 3}" width="{width:.1f}" height="8" rx="2"/></g>'
    )


def _call_row(call: CallTimes, place: Place, y: int, end: float) -> str:
    until = end if call.end is None else call.end
    spans = call.spans if call.end is not None else [Span("running", call.start, until)]
    rects = "".join(
        f'<rect class="{span.name}" x="{place(span.start):.1f}" y="{y}" '
        f'width="{max(place(span.end) - place(span.start), 0.8):.1f}" height="{_BAR}" rx="2">'
        f"<title>{_text(f'{call.name}: {span.name} {_duration(span.end - span.start)}')}</title></rect>"
        for span in spans
    )
    outcome = call.outcome if call.code is None or call.outcome != "failed" else call.code
    took = "" if call.end is None else f" · {_duration(call.end - call.start)}"
    name = _plain(call.name)
    label = name if len(name) <= 28 else name[:27] + "…"
    return (
        f'<g class="{call.outcome}"><text x="{24 + 14 * call.depth}" y="{y + 11}">{_text(label)}</text>{rects}'
        f'<text class="outcome dim" x="{place(until) + 6:.1f}" y="{y + 11}">{_text(outcome + took)}</text></g>'
    )


def _legend(y: int) -> str:
    parts: list[str] = []
    left = 12
    for name in ("model", "waiting", "policy", "approval", "running", "stopping", "review", "commit"):
        parts.append(f'<rect class="{name}" x="{left}" y="{y - 10}" width="12" height="12" rx="2"/>')
        parts.append(f'<text class="dim" x="{left + 17}" y="{y}">{name}</text>')
        left += 30 + 8 * len(name)
    return "".join(parts)


def _duration(ms: float) -> str:
    if ms >= 60_000:
        return f"{ms / 60_000:.1f} min"
    if ms >= 1000:
        return f"{ms / 1000:.2f} s"
    return f"{ms:.1f} ms" if ms % 1 else f"{ms:.0f} ms"


def _plain(text: str) -> str:
    return _REORDERS.sub("", _NOT_XML.sub("�", text.replace("\n", " ")))


def _text(text: str) -> str:
    return escape(_plain(text))
