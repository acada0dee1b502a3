"""One self-contained HTML page about a test: every verdict with its evidence, in light and dark, without a script."""

import html
import json
from importlib.resources import files
from pathlib import Path

from parley.launch.results.folder import whole_file
from parley.launch.testkit.show import WORDS, last_line
from parley.launch.testkit.verdicts import Report, Verdict, plain

STYLE = """
table.verdicts { border-collapse: collapse; width: 100%; }
.verdicts th { text-align: left; font-size: .85rem; color: var(--muted); font-weight: 600; }
.verdicts th, .verdicts td { padding: 7px 12px 7px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.verdicts tr:last-child td { border-bottom: 0; }
.verdicts td:first-child { width: 7.5rem; }
.verdicts td:nth-child(2) { width: 15rem; font-weight: 600; }
.verdicts td:last-child, .verdicts th:last-child { text-align: right; padding-right: 0; white-space: nowrap; }
.verdicts details { margin-top: 4px; color: var(--muted); font-size: .87rem; }
.verdicts pre { margin: 6px 0 0; padding: 10px; background: var(--soft); border-radius: 8px; overflow-x: auto; }
.verdicts p { overflow-wrap: anywhere; }
.lead { margin-bottom: 16px; }
@media (max-width: 700px) {
  .verdicts thead { display: none; }
  .verdicts tr, .verdicts td { display: block; width: auto !important; border: 0; padding: 2px 0; }
  .verdicts tr { border-bottom: 1px solid var(--line); padding: 10px 0; }
  .verdicts td:last-child { text-align: left; color: var(--muted); }
}
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def write_page(path: Path, report: Report, about: dict[str, str]) -> None:
    """Write the page whole or not at all. `about`: what each stage looks for."""
    with whole_file(path) as fresh:
        fresh.write_text(render(report, about), encoding="utf-8")


def render(report: Report, about: dict[str, str]) -> str:
    """The page; everything that comes from the protocol is escaped."""
    style = files("parley.launch.report").joinpath("assets/style.css").read_text(encoding="utf-8") + STYLE
    title = html.escape(f"parley test {report.target}")
    pill = "pass" if report.ok else "fail"
    stages = dict.fromkeys(each.stage for each in report.verdicts)
    cards = "".join(_card(stage, about.get(stage, ""), report) for stage in stages)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header class="top"><h1>{title}</h1><span class="pill {pill}">{"good" if report.ok else "not good"}</span></header>
<main>
<p class="lead">{html.escape(last_line(report))}. Effort: {report.effort}. Parley {html.escape(report.version)}.</p>
{cards}</main>
</body>
</html>
"""


def _card(stage: str, about: str, report: Report) -> str:
    rows = "".join(_row(each) for each in report.verdicts if each.stage == stage)
    head = "<tr><th>verdict</th><th>check</th><th>what was found</th><th>seconds</th></tr>"
    return (
        f'<section class="card"><h2>{html.escape(stage)}</h2><p class="lead">{html.escape(about)}</p>'
        f'<table class="verdicts"><thead>{head}</thead><tbody>{rows}</tbody></table></section>\n'
    )


def _row(each: Verdict) -> str:
    evidence = html.escape(json.dumps(plain(each.evidence), indent=2, ensure_ascii=False))
    shown = f"<details><summary>evidence</summary><pre>{evidence}</pre></details>" if each.evidence else ""
    repeat = f"<p>Repeat it: <code>{html.escape(each.repeat)}</code></p>" if each.repeat else ""
    return (
        f'<tr><td><span class="pill {each.outcome}">{WORDS[each.outcome].lower()}</span></td>'
        f"<td>{html.escape(each.check)}</td><td><p>{html.escape(each.says)}</p>{repeat}{shown}</td>"
        f"<td>{each.seconds:.1f}</td></tr>"
    )
