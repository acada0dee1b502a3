"""`parley protocols`: what there is to choose from, one as a state machine; `parley new-protocol`: one of your own."""

import json
import re
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any

import click

from parley.emulator.errors import BadInput
from parley.launch.settings import complete, output_options, print_table, protocol_file_option
from parley.protocols.outline import example, outline
from parley.protocols.registry import BUILT_IN, lookup, names

# A narrower terminal has no room for a table of all names and what they mean.
TABLE_WIDTH = 120


@click.command(epilog="Example: parley protocols three-round")
@click.argument("name", required=False, shell_complete=complete(lambda: names("shuffler")))
@protocol_file_option
@output_options("a list of records, or the record of one protocol")
def protocols(name: str | None, as_json: bool) -> None:
    """List all protocols, or show NAME as a state machine.

    With a name: the states, what is broadcast, what each user sends with which randomizer and epsilon, who answers, and
    the analyst's steps. Everything is derived from the protocol's class. Numbers are those of a small problem with
    epsilon 1.
    """
    if name is not None:
        lookup(name)
        shown = outline(example(name))
        click.echo(json.dumps(shown, indent=2) if as_json else drawn(shown))
        return
    rows = [listed(each) for each in names("shuffler")]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
    elif sys.stdout.isatty() and shutil.get_terminal_size((80, 24)).columns < TABLE_WIDTH:
        for row in rows:
            rounds = "1 round" if row["rounds"] == 1 else f"{row['rounds']} rounds"
            trusts = "" if row["trusts"] == "nobody" else f", trusts a {row['trusts']}"
            click.echo(f"{row['name']}: {rounds}, {row['interaction']}{trusts}")
            click.echo(_wrapped(f"    {row['summary']}"))
    else:
        cells = ([str(value) for value in row.values()] for row in rows)
        print_table(list(rows[0]), cells, words=("name", "interaction", "trusts", "summary"))


def listed(name: str) -> dict[str, Any]:
    claim = example(name).claim
    return {
        "name": name,
        "rounds": claim.rounds,
        "interaction": claim.interaction,
        "trusts": claim.trusts,
        "summary": getattr(lookup(name), "summary", ""),
    }


def drawn(shown: dict[str, Any]) -> str:
    """The state machine for people."""

    def epsilon(spent: dict[str, Any]) -> str:
        return "unbounded epsilon" if spent["epsilon"] is None else f"epsilon {spent['epsilon']:.4g}"

    claim = shown["claim"]
    delta = f", delta {claim['delta']:g}" if claim["delta"] else ""
    lines = [
        f"{shown['name']}: {shown['summary']}",
        f"epsilon {claim['epsilon']:g}{delta}, {claim['interaction']}, users trust {claim['trusts']}",
        "",
    ]
    before = ", before the shuffler" if claim["trusts"] == "shuffler" else ""
    for each in shown["rounds"]:
        broadcast = ", ".join(f"{name} {kind}" for name, kind in each["broadcast"].items()) or "nothing"
        lines += [
            f"  analyst broadcasts {broadcast}",
            "   |",
            f"   v  state {each['number']}: asking {each['name']!r}; {epsilon(each)} from {each['answers']}{before}",
            *(f"      {line}" for line in each["says"].splitlines()),
        ]
        for send in each["sends"]:
            columns = ", ".join(f"{name} {kind}".strip() for name, kind in send["columns"].items())
            lines.append(f"      {send['name']}: {send['randomizer']}, {epsilon(send)}, sent as {columns}")
        lines.append("   |")
    steps = [f"  {line}" for line in shown["analyst"]["steps"].splitlines()]
    lines += ["   v  state ended: the estimate", "", f"analyst: {shown['analyst']['says']}"]
    return "\n".join([*(_wrapped(line) for line in lines), *steps])


def _wrapped(line: str) -> str:
    """The line for a terminal of this width; what does not fit goes on below, further to the right."""
    indent = " " * (len(line) - len(line.lstrip(" |v")) + 2)
    width = shutil.get_terminal_size((80, 24)).columns
    return textwrap.fill(line, max(width, 40), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


TEMPLATE = '''"""@NAME@: the mean of a value in [0, 1], by one bit per user. Change it step by step; it runs as it is.

parley run --protocol-file @FILE@ --protocol @NAME@ --levels 16 --epsilon 1 --users 2000
parley plan --protocol-file @FILE@ --protocol @NAME@ --levels 16 --epsilon 1 --users 2000
parley sweep --protocol-file @FILE@ --protocol @NAME@ --levels 16 --epsilon 1 --users 500,2000 --trials 20
parley audit runs/latest --protocol-file @FILE@
parley replay runs/latest --protocol-file @FILE@ --role all
parley protocols @NAME@ --protocol-file @FILE@
"""

from dataclasses import dataclass

import numpy as np

import parley


@dataclass(frozen=True, kw_only=True)
class @CLASS@(parley.Protocol):
    """Input j of k stands for the value j/(k - 1)."""

    name = "@NAME@"
    summary = "the mean of a bounded value, by one bit per user"

    # Public parameters. The command fills in inputs (k), epsilon, users and workload; others need a default.
    inputs: int
    epsilon: float

    @property
    def values(self):
        """The value that each input stands for."""
        return np.linspace(0, 1, self.inputs)

    # A round says what users send: a name, a randomizer, and the value it hides for every input.
    # A round that follows a broadcast takes it as arguments: @parley.sends(mu="d") def second(self, mu): ...
    @parley.sends
    def bit(self):
        """Each user sends a bit that is the likelier 1, the larger its value is."""
        return {"x": parley.Send(parley.OneBit(low=0.0, high=1.0, epsilon=self.epsilon), self.values)}

    # The rounds in their order. What they spend must not exceed epsilon.
    script = (bit,)

    def analyst(self):
        """Ask, hear, estimate."""
        heard = yield parley.Ask(self.bit)
        mean = float(heard.mean("x"))
        return parley.Estimate.normal(mean, heard.variance("x") ** 0.5)

    def truth(self, inputs):
        """What an emulation compares the estimate with; leave it out if there is no such number."""
        return self.values[inputs].mean()
'''


@click.command(name="new-protocol", epilog="Example: parley new-protocol my-mean")
@click.argument("name")
@output_options()
def new_protocol(name: str, as_json: bool) -> None:
    """Write NAME.py in this folder: a protocol that runs, to be changed into your own."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        raise BadInput(f"{name!r:.80} cannot name a protocol; give lower-case words with dashes, such as my-mean")
    if name in BUILT_IN:
        raise BadInput(f"{name} is one of Parley's own protocols; give another name")
    path = Path(f"{name}.py")
    kind = "".join(word.capitalize() for word in name.split("-"))
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE.replace("@NAME@", name).replace("@FILE@", str(path)).replace("@CLASS@", kind))
    except FileExistsError:
        raise BadInput(f"{path} exists already; give another name") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be written: {error.strerror}") from error
    run = f"parley run --protocol-file {path} --protocol {name} --levels 16 --epsilon 1 --users 2000"
    click.echo(json.dumps({"name": name, "file": str(path), "run": run}) if as_json else f"wrote {path}; try\n  {run}")
