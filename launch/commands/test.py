"""`parley test`: does a protocol keep its promises, on every schedule and between real processes?"""

import sys
from pathlib import Path

import click
from rich.console import Console

from parley.emulator.errors import BadInput
from parley.launch.results.display.printable import printable_json
from parley.launch.settings import CHECK_FAILED, GOOD, debug_option, path_option
from parley.launch.testkit.show import Bar, last_line, table_of, write_junit, write_page
from parley.launch.testkit.stages import MODULES, find_stages, run_stages
from parley.launch.testkit.target import find_target
from parley.launch.testkit.verdicts import Effort


@click.command(epilog="Example: parley test three-round --quick")
@click.argument("target")
@click.option("--protocol", metavar="NAME", help="Which one, where TARGET is a file with several protocols.")
@click.option("--quick", is_flag=True, help="Under 30 seconds: one problem, fewer draws, one of the conditions.")
@click.option("--thorough", is_flag=True, help="As long as it takes: more problems, draws, trials and seeds.")
@click.option("--stage", "stages", multiple=True, metavar="NAME", help=f"Only this stage: {', '.join(MODULES)}.")
@path_option("--html", "page", metavar="FILE", help="Write one HTML page with all evidence.")
@path_option("--junit", metavar="FILE", help="Write JUnit XML for continuous integration.")
@click.option("--json", "as_json", is_flag=True, help="Print one record of JSON.")
@click.option("--quiet", is_flag=True, help="Hide progress.")
@debug_option
def test(
    target: str,
    protocol: str | None,
    quick: bool,
    thorough: bool,
    stages: tuple[str, ...],
    page: Path | None,
    junit: Path | None,
    as_json: bool,
    quiet: bool,
) -> int:
    """Test TARGET, a protocol by its name or a Python file with one: every promise, with a verdict and evidence.

    The kit chooses small problems itself; a class may name its own in `test_problems` (docs/own-protocol.md).
    """
    if quick and thorough:
        raise BadInput("--quick and --thorough contradict each other; give one of them")
    for path in (page, junit):
        if path is not None and not path.absolute().parent.is_dir():
            raise BadInput(f"{path} cannot be written: there is no folder {path.parent}")
    effort: Effort = "quick" if quick else "thorough" if thorough else "usual"
    chosen = find_stages(stages)
    found = find_target(target, protocol)
    with Bar(len(chosen), quiet=quiet) as bar:
        report = run_stages(found, effort, chosen, bar.show)
    if page is not None:
        write_page(page, report, {each.name: each.says for each in chosen})
    if junit is not None:
        write_junit(junit, report)
    if as_json:
        click.echo(printable_json(report.record(), indent=2))
    else:
        console = Console(width=None if sys.stdout.isatty() else 100)
        console.print(table_of(report))
        console.print(f"\n{last_line(report)}", highlight=False, markup=False)
    return GOOD if report.ok else CHECK_FAILED
