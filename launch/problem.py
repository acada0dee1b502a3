"""The problem flags, the same for every command: the one place where they become a workload and inputs."""

import functools
import hashlib
import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import click
import numpy as np

from parley.emulator.coins import fresh_key, key_from_seed
from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.roles.consent import domain_of
from parley.launch.data import read_columns
from parley.launch.settings import protocol_file_option
from parley.protocols.registry import design
from parley.protocols.tuned.split_users import salted
from parley.protocols.workloads import synthetic
from parley.protocols.workloads.choice import STATISTICS, make_domain, make_workload
from parley.protocols.workloads.domain import Domain, Encoded
from parley.protocols.workloads.workload import Workload

MOST_USERS = 10**8
LARGEST_SEED = 2**127

OPTIONS = (
    click.option("--statistic", metavar="NAME", help=f"What to estimate: {', '.join(STATISTICS)}."),
    click.option("--levels", metavar="LEVELS", help="Levels of the data: 16x16 for kendall, else one number."),
    click.option(
        "--kernel", type=click.Path(path_type=Path), help="A k x k matrix (.npy or .csv) instead of a statistic."
    ),
    click.option("--data", type=click.Path(path_type=Path), help="A .csv, .tsv or .parquet file; each row is a user."),
    click.option("--columns", metavar="A,B", help="Which columns of the data, in the order of the statistic."),
    click.option("--label", metavar="B", help="For auc: the column of labels; --columns then names the score."),
    click.option(
        "--range", "ranges", multiple=True, metavar="A=LO:HI", help="The public range of a column; outside is clipped."
    ),
    click.option(
        "--categories", multiple=True, metavar="A=X,Y", help="The public categories of a column, in their order."
    ),
    click.option("--users", type=int, metavar="N", help="Synthetic data: how many users there are."),
    click.option("--synthetic", metavar="NAME", help="Which synthetic data the users hold."),
    click.option("--epsilon", type=float, required=True, help="The privacy every user is promised."),
    click.option("--delta", type=float, help="The delta of protocols that trust a shuffler.  [default: 1e-6]"),
    click.option("--seed", type=int, help="Make data and noise repeatable; such a run is not private."),
    click.option(
        "--protocol",
        metavar="NAME",
        default="auto",
        show_default=True,
        help="See `parley protocols`; auto: the best.",
    ),
    protocol_file_option,
)


@dataclass(frozen=True, kw_only=True)
class ProblemFlags:
    """The problem flags as they were typed."""

    statistic: str | None = None
    levels: str | None = None
    kernel: Path | None = None
    data: Path | None = None
    columns: str | None = None
    label: str | None = None
    ranges: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    users: int | None = None
    synthetic: str | None = None
    epsilon: float
    delta: float | None = None
    seed: int | None = None
    protocol: str = "auto"


@dataclass(frozen=True, kw_only=True, repr=False)
class Problem:
    """What the flags ask for: a statistic of private inputs."""

    workload: Workload
    inputs: Inputs
    epsilon: float
    seed: int | None
    delta: float | None = None
    clipped: Mapping[str, int] = field(default_factory=dict)
    domain: Mapping[str, Any] | None = None

    @property
    def users(self) -> int:
        return len(self.inputs)

    def truth(self) -> float:
        """The statistic of the inputs themselves; only an emulation knows it."""
        return self.workload.exact(self.inputs)

    def coin_key(self) -> bytes:
        """From the operating system, or from the seed of an experiment."""
        return fresh_key() if self.seed is None else key_from_seed(self.seed)

    def protocol(self, name: str, quorum: float = 1.0) -> Protocol:
        """The named protocol for this problem; where it splits users, into groups drawn for this run.

        A shuffler must not post fewer replies than the quorum, so privacy is computed for so many.
        """
        crowd = min(self.users, max(2, math.ceil(quorum * self.users)))
        made = design(name, self.workload, epsilon=self.epsilon, users=self.users, delta=self.delta, crowd=crowd)
        return salted(made, public_salt(self.seed))


def public_salt(seed: int | None) -> int:
    """What splits users into groups. It is public, so it must say nothing about the coins."""
    if seed is None:
        return secrets.randbits(63)
    return int.from_bytes(hashlib.sha256(f"parley salt {seed}".encode()).digest()[:8], "little") >> 1


def problem_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the problem flags, collected as its argument `flags`."""

    @functools.wraps(command)
    def collected(**given: Any) -> Any:
        flags = ProblemFlags(**{each.name: given.pop(each.name) for each in fields(ProblemFlags)})
        return command(flags=flags, **given)

    decorated: Callable[..., Any] = collected
    for option in reversed(OPTIONS):
        decorated = option(decorated)
    return decorated


def make_problem(flags: ProblemFlags) -> Problem:
    """The problem the flags describe, or BadInput naming the flag that is wrong."""
    workload = make_workload(flags.statistic, flags.levels, flags.kernel)
    if not (math.isfinite(flags.epsilon) and flags.epsilon > 0):
        raise BadInput(f"--epsilon {flags.epsilon} promises nothing; give a positive, finite number")
    if flags.seed is not None and not 0 <= flags.seed < LARGEST_SEED:
        raise BadInput(f"--seed {flags.seed} cannot be used; give a whole number from 0 to 2^127 - 1")
    encoded, domain = _from_data(flags, workload) if flags.data is not None else (_synthetic(flags, workload), None)
    return Problem(
        workload=workload,
        inputs=encoded.indices,
        epsilon=flags.epsilon,
        seed=flags.seed,
        delta=flags.delta,
        clipped={name: count for name, count in encoded.clipped.items() if count},
        domain=domain,
    )


def _from_data(flags: ProblemFlags, workload: Workload) -> tuple[Encoded, Mapping[str, Any]]:
    if flags.users is not None or flags.synthetic is not None:
        raise BadInput("--data already says who the users are; leave out --users and --synthetic")
    domain = declared_domain(flags, workload)
    if domain is None:
        raise BadInput(f"say which columns of {flags.data} to use, such as --columns age,score")
    assert flags.data is not None
    found = read_columns(flags.data, domain.columns)
    return domain.encode(found), domain_of(workload.size, domain.declared)


def declared_domain(flags: ProblemFlags, workload: Workload) -> Domain | None:
    """The columns the flags declare; None where they name none."""
    names = [name.strip() for name in (flags.columns or "").split(",") if name.strip()]
    if flags.label is not None:
        names.append(flags.label)
    return make_domain(workload, names, flags.ranges, flags.categories) if names else None


def _synthetic(flags: ProblemFlags, workload: Workload) -> Encoded:
    if flags.columns or flags.label or flags.ranges or flags.categories:
        raise BadInput("--columns, --label, --range and --categories describe a file; name it with --data FILE")
    if flags.users is None:
        raise BadInput("say whose data: --data FILE with --columns, or synthetic users with --users N")
    if not 2 <= flags.users <= MOST_USERS:
        raise BadInput(f"--users {flags.users} cannot be used; give a number from 2 to {MOST_USERS}")
    name = flags.synthetic or synthetic.names(workload)[0]
    indices = synthetic.draw(name, workload, flags.users, np.random.default_rng(flags.seed))
    return Encoded(indices=indices, clipped={})
