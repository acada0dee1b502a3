"""What `parley test` shows: a bar while it goes on, a table at the end, and as files JUnit XML and a page."""

import html
import json
import sys
import xml.etree.ElementTree as ElementTree
from importlib.resources import files
from pathlib import Path
from typing import Self

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from parley.launch.results.display.printable import printable
from parley.launch.results.folder import whole_file
from parley.launch.testkit.verdicts import Report, Said, Stage, Step, Verdict, plain

WORDS = {"pass": "pass", "fail": "FAIL", "unknown": "not tested"}
STYLES = {"pass": "green", "fail": "bold red", "unknown": "yellow"}
MARKS = {"pass": "ok", "fail": "FAIL", "unknown": "--"}
# Of the page: without a script, in light and dark.
PAGE_STYLE = """
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
PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


class Bar:
    """On a terminal a bar that moves all the time; elsewhere one line per verdict. Always on standard error."""

    def __init__(self, stages: int, *, quiet: bool) -> None:
        self.console = Console(stderr=True)
        self.quiet, self._stages, self._stage, self._done = quiet, stages, "", -1
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), TimeElapsedColumn())
        hidden = quiet or not self.console.is_terminal
        self._progress = Progress(*columns, console=self.console, disable=hidden, transient=True)
        self._task = self._progress.add_task("starting", total=float(stages))

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, stage: Stage, said: Said) -> None:
        """A stage has come this far."""
        if stage.name != self._stage:
            self._stage, self._done = stage.name, self._done + 1
        if isinstance(said, Step):
            self._progress.update(self._task, description=said.text[:46], completed=self._done + said.share)
        elif not self.quiet and not self.console.is_terminal:
            print(
                f"{said.stage}: {said.check}: {WORDS[said.outcome]} ({said.seconds:.1f} s)", file=sys.stderr, flush=True
            )


def table_of(report: Report) -> Table:
    """All verdicts, stage by stage; fits into 80 columns."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, expand=False)
    table.add_column("", no_wrap=True, width=4)
    table.add_column("check", no_wrap=True, max_width=27)
    table.add_column("what was found", overflow="fold")
    table.add_column("s", justify="right", no_wrap=True)
    stage = ""
    for each in report.verdicts:
        if each.stage != stage:
            if stage:
                table.add_row()
            stage = each.stage
            table.add_row("", f"[bold]{escape(stage)}[/]")
        mark = f"[{STYLES[each.outcome]}]{MARKS[each.outcome]}[/]"
        table.add_row(mark, escape(each.check), escape(printable(each.says)), f"{each.seconds:.1f}")
        if each.repeat:
            table.add_row("", "", f"[dim]repeat:[/] {escape(printable(each.repeat))}")
    return table


def last_line(report: Report) -> str:
    """The verdict of all verdicts."""
    counts = report.record()["counts"]
    said = f"{counts['pass']} passed"
    if counts["fail"]:
        stages = ", ".join(dict.fromkeys(each.stage for each in report.failures))
        said += f", {counts['fail']} failed ({stages})"
    if counts["unknown"]:
        said += f", {counts['unknown']} not tested"
    verdict = "good" if report.ok else "NOT GOOD" if report.failures else "NOT TESTED"
    return f"{report.target}: {verdict}; {said}; {report.seconds:.1f} s"


def write_junit(path: Path, report: Report) -> None:
    """One test case per verdict, in the form that continuous integration servers read."""
    suites = ElementTree.Element("testsuites", name=f"parley test {report.target}")
    for stage in dict.fromkeys(each.stage for each in report.verdicts):
        verdicts = [each for each in report.verdicts if each.stage == stage]
        suite = ElementTree.SubElement(
            suites,
            "testsuite",
            name=stage,
            tests=str(len(verdicts)),
            failures=str(sum(each.outcome == "fail" for each in verdicts)),
            errors="0",
            skipped=str(sum(each.outcome == "unknown" for each in verdicts)),
            time=f"{sum(each.seconds for each in verdicts):.3f}",
        )
        for each in verdicts:
            _test_case(suite, report.target, each)
    ElementTree.indent(suites)
    with whole_file(path) as fresh:
        ElementTree.ElementTree(suites).write(fresh, encoding="utf-8", xml_declaration=True)


def _test_case(suite: ElementTree.Element, target: str, each: Verdict) -> None:
    name = f"{target}.{each.stage}"
    case = ElementTree.SubElement(suite, "testcase", classname=name, name=each.check, time=f"{each.seconds:.3f}")
    says = printable(each.says)
    if each.outcome == "fail":
        failure = ElementTree.SubElement(case, "failure", message=says)
        failure.text = printable(f"{each.says}\n{each.repeat}".strip())
    elif each.outcome == "unknown":
        ElementTree.SubElement(case, "skipped", message=says)
    else:
        ElementTree.SubElement(case, "system-out").text = says


def write_page(path: Path, report: Report, about: dict[str, str]) -> None:
    """Write one self-contained page, whole or not at all. `about`: what each stage looks for."""
    with whole_file(path) as fresh:
        fresh.write_text(_page(report, about), encoding="utf-8")


def _page(report: Report, about: dict[str, str]) -> str:
    """The page; everything that comes from the protocol is escaped."""
    style = files("parley.launch.report").joinpath("assets/style.css").read_text(encoding="utf-8") + PAGE_STYLE
    title = html.escape(f"parley test {report.target}")
    pill = "pass" if report.ok else "fail"
    stages = dict.fromkeys(each.stage for each in report.verdicts)
    cards = "".join(_card(stage, about.get(stage, ""), report) for stage in stages)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{PAGE_POLICY}">
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
