"""How results show themselves in a notebook: tables, bars and pages as HTML that needs nothing else."""

import html
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

BAR_HEIGHT, LABEL_WIDTH, BAR_WIDTH = 20, 190, 320
LARGEST_PAGE = 16 << 20


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table; the first column stands left, the others right."""

    def cells(tag: str, row: Sequence[str]) -> str:
        sides = ("left", *("right",) * (len(row) - 1))
        styled = zip(row, sides, strict=True)
        return "".join(f"<{tag} style='text-align:{side}'>{html.escape(cell)}</{tag}>" for cell, side in styled)

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{cells('th', headings)}</tr></thead><tbody>{body}</tbody></table>"


def facts(lines: Mapping[str, str], caption: str = "") -> str:
    """Labels and what they stand for, one below the other."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(label)}</th>"
        f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
        for label, text in lines.items()
    )
    return f"<table><caption>{html.escape(caption)}</caption>{rows}</table>"


def bars(values: Mapping[str, float], title: str) -> str:
    """Positive numbers as bars on a logarithmic scale, which begins at a power of ten."""
    known = {name: value for name, value in values.items() if value > 0 and math.isfinite(value)}
    if not known:
        return ""
    low = math.floor(math.log10(min(known.values())))
    span = max(1.0, math.log10(max(known.values())) - low)
    shapes = []
    for place, (name, value) in enumerate(known.items()):
        y, width = place * BAR_HEIGHT, max(1.0, (math.log10(value) - low) / span * BAR_WIDTH)
        shapes.append(
            f"<text x='{LABEL_WIDTH - 6}' y='{y + 14}' text-anchor='end'>{html.escape(name)}</text>"
            f"<rect x='{LABEL_WIDTH}' y='{y + 3}' width='{width:.1f}' height='{BAR_HEIGHT - 6}' fill='#4878a8'/>"
            f"<text x='{LABEL_WIDTH + width + 6:.1f}' y='{y + 14}'>{value:.3g}</text>"
        )
    size = f"width='{LABEL_WIDTH + BAR_WIDTH + 70}' height='{len(known) * BAR_HEIGHT}'"
    style = "font:12px sans-serif;fill:currentColor"
    return (
        f"<svg role='img' aria-label='{html.escape(title, quote=True)}' {size} style='{style}'>{''.join(shapes)}</svg>"
    )


def page(path: Path, title: str) -> str:
    """A page of ours inside another one, shut off from it; nothing where there is none or it is huge."""
    if not path.is_file() or path.stat().st_size > LARGEST_PAGE:
        return ""
    content = html.escape(path.read_text(encoding="utf-8"), quote=True)
    frame = f"<iframe sandbox='allow-scripts' style='width:100%;height:600px;border:0' title='{title}'"
    return f'<details><summary>{title}</summary>{frame} srcdoc="{content}"></iframe></details>'
