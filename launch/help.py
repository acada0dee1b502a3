"""`parley help`: one command, or one topic that several commands share."""

import difflib
import json
import textwrap
from collections.abc import Callable, Iterable

import click

from parley.emulator.errors import BadInput
from parley.launch.settings import complete, output_options


def _names(label: str, names: Iterable[str]) -> str:
    return f"{label}: {', '.join(names)}"


def _statistics() -> str:
    from parley.protocols.workloads.choice import STATISTICS

    return f"""\
{_names("Names for --statistic", STATISTICS)}.

kendall and kendall-b, which corrects for ties, need two columns and levels such as 16x16. auc needs a score and a
label of yes and no. The others need one column and one number of levels. gini-diversity takes --categories instead of
--levels. --kernel FILE takes any k x k matrix (.npy or .csv) instead of a statistic."""


def _data() -> str:
    from parley.protocols.workloads.synthetic import LABELLED, PAIRS, SCALARS

    return f"""\
--data FILE reads a .csv, .tsv or .parquet file, in which each row is a user, and --columns names the columns. Declare
each column; nothing is read off the data, because a range taken from the data would say something about them.

  --range age=18:90                  numbers; values outside are clipped
  --range day=2024-01-01:2024-12-31  dates, the last day included
  --categories answer=no,maybe,yes   text, from the lowest to the highest

Numbers and dates are cut into bins of equal width, as many as --levels says. --bins age=18,30,45,65,90 declares the
edges of a column. --bins quantile lets the run find bins privately, from a range with a resolution
(--range age=18:90/720), and --levels auto takes as many as are best. A range of times is written as
2024-01-01T06:00:2024-01-01T22:00.

--missing says what becomes of rows that lack a value: refuse (the default), drop (for an emulation), or as-category,
which counts them as the category `missing`. Only the last one hides who has no value.

Without a file, --users N makes synthetic data, and --synthetic NAME says which:

  two columns  {textwrap.fill(", ".join(PAIRS), 64, subsequent_indent=" " * 15)}
  one column   {", ".join(SCALARS)}
  auc          {", ".join(LABELLED)}"""


def _epsilon() -> str:
    return """\
Epsilon bounds what one person's messages tell about that person's value: whatever is sent, its probability would change
by a factor of at most e^epsilon if the value were different. With epsilon 1, someone undecided between two values of a
person can be 73% sure afterwards, at most. A smaller epsilon is more private and less exact.

  0.5   factor 1.6   strong
  1     factor 2.7   usual in the literature
  2     factor 7.4
  4     factor 55    weak: a reply can all but give the value away; plan warns
  8     factor 2981  hardly any protection from one's own messages

Losses add up across runs: anyone who takes part twice with epsilon 1 has given away 2. `parley wallet` counts them.
`parley plan` shows the expected error at an epsilon; the error falls with the square root of the number of users.
--delta belongs to protocols that trust a shuffler: it is the chance, above 0 and below 1, that the bound fails."""


def _conditions() -> str:
    from parley.launch.cluster.fault_driver import ready_made

    return f"""\
--conditions injects faults into a run: a TOML file of your own, or one that comes with Parley.
{_names("Names", ready_made())}.

Loss, delay, duplicates, corruption, partitions and killed processes are drawn from a seed and recorded. A run under
faults gives the same answer, or fails and says why. docs/reliability.md describes the file."""


def _files() -> str:
    return """\
A run leaves a folder runs/<time>-<name>/, and runs/latest points to the newest one. Commands take the folder, its name
in runs/, or a transcript.

  transcript.parley   every message; safe to share
  witness.parley      inputs and key of the noise, in emulations only; private
  result.json         the result record; truth, error and source are private
  report.html         the run in pictures; private unless made with --public
  trust.toml          the public keys for checking signatures
  logs/, state/       what processes printed; plan, addresses, states of nodes"""


def _exit_codes() -> str:
    return """\
  0    good
  1    a check failed: an audit, a replay, a comparison
  2    bad usage or bad input; standard error says what is allowed
  3    the run could not finish
  130  interrupted (Ctrl-C)
  143  ended by SIGTERM

An error is one sentence on standard error; --debug adds the traceback."""


TOPICS: dict[str, tuple[str, Callable[[], str]]] = {
    "statistics": ("what can be estimated", _statistics),
    "data": ("files, ranges, categories, dates, missing values", _data),
    "epsilon": ("what epsilon and delta mean", _epsilon),
    "conditions": ("faults to inject", _conditions),
    "files": ("what a run leaves behind", _files),
    "exit-codes": ("what a command returns", _exit_codes),
}


def _known() -> list[str]:
    from parley.launch.cli import COMMANDS

    return [*TOPICS, *COMMANDS]


@click.command(epilog="Example: parley help data")
@click.argument("topic", required=False, shell_complete=complete(_known))
@output_options("topics and their texts")
@click.pass_context
def help(context: click.Context, topic: str | None, as_json: bool) -> None:
    """Explain TOPIC, or a command; without one, list the topics."""
    from parley.launch.cli import COMMANDS

    if as_json:
        wanted = [topic] if topic in TOPICS else list(TOPICS)
        click.echo(json.dumps({name: TOPICS[name][1]() for name in wanted}, indent=2))
    elif topic is None:
        click.echo("`parley help TOPIC` explains one of these, `parley help COMMAND` a command:\n")
        for name, (about, _) in TOPICS.items():
            click.echo(f"  {name:<12} {about}")
    elif topic in TOPICS:
        for paragraph in TOPICS[topic][1]().split("\n\n"):
            # Tables stay as they are; text is made as wide as a terminal.
            lines = paragraph.splitlines()
            table = any(line.startswith("  ") for line in lines)
            click.echo(paragraph if table else textwrap.fill(" ".join(lines), 80, break_on_hyphens=False))
            click.echo()
    elif topic in COMMANDS:
        root = context.find_root()
        assert isinstance(root.command, click.Group)
        command = root.command.get_command(root, topic)
        assert command is not None
        click.echo(command.get_help(click.Context(command, info_name=topic, parent=root)))
    else:
        near = difflib.get_close_matches(topic.lower(), _known(), n=1)
        hint = f"did you mean {near[0]}?" if near else f"topics are {', '.join(TOPICS)}"
        raise BadInput(f"there is no help about {topic!r:.80}; {hint}")
