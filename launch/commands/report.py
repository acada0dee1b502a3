"""`parley report`: the page about a run, made anew from its record."""

from pathlib import Path

import click

from parley.emulator.errors import BadInput, TranscriptError
from parley.launch.report.model import SAMPLE, make_model
from parley.launch.report.page import write_page
from parley.launch.results.display.printable import printable, printable_json
from parley.launch.results.display.progress import Working
from parley.launch.results.reporting import show_in_browser
from parley.launch.results.run_files import find_run, run_argument, witness_option
from parley.launch.settings import output_options, path_option

PAGES = (".html", ".htm")


@click.command(epilog="Example: parley report runs/latest")
@run_argument
@witness_option
@path_option("--out", help="File to write.  [default: report.html beside the record]")
@click.option(
    "--public",
    is_flag=True,
    help="Leave out what only the emulation knows, so that the page is as safe to share as the record.",
)
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    metavar="N",
    default=SAMPLE,
    show_default=True,
    help="Number of users whose exact privacy loss is computed; a random sample if there are more.",
)
@click.option("--open", "open_page", is_flag=True, help="Open the page in a browser.")
@output_options()
def report(
    run: Path, witness: Path | None, out: Path | None, public: bool, sample: int, open_page: bool, as_json: bool
) -> None:
    """Make the page about RUN: answer, conversation, privacy loss, errors, faults, messages. One file, no network.

    RUN is the folder of a run, its name in runs/, or a transcript; without it, the latest run. A record that was cut
    off or altered gets a page too, as far as it can be read.
    """
    if out is not None and out.suffix.lower() not in PAGES:
        # What is there already is replaced, as when a page is made again; so it had better be a page.
        raise BadInput(f"--out {out} should end in .html")
    files = find_run(run, witness)
    known = None if public else files.load_witness()
    try:
        with Working("reading the record"):
            model = make_model(files.transcript, witness=known, sample=sample)
    except TranscriptError as error:
        raise BadInput(f"{error}; there is nothing to report") from error
    page = out or files.transcript.with_name("report.html")
    write_page(page, model)
    if open_page:
        show_in_browser(page.absolute().as_uri())
    record = {"file": str(page), "outcome": model["outcome"], "emulation": model["emulation"]}
    click.echo(printable_json(record, indent=2) if as_json else printable(f"report written to {page}"))
