"""`parley new-protocol`: a file with a protocol of your own, to begin with."""

import json
import re
from pathlib import Path

import click

from parley.emulator.errors import BadInput
from parley.launch.results.run_files import json_option
from parley.launch.settings import debug_option
from parley.protocols.registry import BUILT_IN

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


@click.command(name="new-protocol")
@click.argument("name")
@json_option
@debug_option
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
