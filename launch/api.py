"""A problem: a question about private inputs. Python and the command line make it here, with the same options.

import parley

problem = parley.problem(frame, "kendall", columns=("age", "score"), levels=(16, 16),
                         ranges={"age": (18, 90), "score": (0, 100)})
print(problem.simulate(epsilon=1.0))
print(problem.run(epsilon=1.0, processes=4))
"""

import hashlib
import math
import secrets
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from parley.emulator.coins import fresh_key, key_from_seed
from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs, Protocol, Trust
from parley.emulator.randomizer import Floats
from parley.emulator.record.summary import Summary
from parley.emulator.roles.consent import domain_of
from parley.emulator.simulate import conversation
from parley.emulator.wire.codec import encode
from parley.launch.data import encode_data
from parley.launch.notebook import in_python_words, python_words
from parley.launch.results.answer import Answer
from parley.launch.results.folder import RunFolder, choose_folder
from parley.launch.results.plans import Plan, make_plan
from parley.protocols.planned import truth_of
from parley.protocols.plugins import add_file
from parley.protocols.registry import design
from parley.protocols.tuned.groups import salted
from parley.protocols.workloads.choice import Missing, implied_levels, make_domain, make_question
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.synthetic import draw, names
from parley.protocols.workloads.workload import Levels, Workload, check_inputs

if TYPE_CHECKING:
    from parley.launch.cluster.layout import Layout

MOST_USERS = 10**8
# User nodes, unless somebody says how many.
USUAL_PROCESSES = 4
Declared = Mapping[str, Any] | Iterable[str]


@dataclass(frozen=True, kw_only=True, repr=False)
class Problem:
    """A question about private inputs: a statistic of pairs or, given levels alone, whatever a protocol estimates.

    The inputs never show in its text.
    """

    question: Workload | Levels
    inputs: Inputs
    clipped: Mapping[str, int] = field(default_factory=dict)
    dropped: int = 0
    domain: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        return f"<{self.question.name} of {self.users} users with {self.question.size} possible inputs each>"

    @property
    def users(self) -> int:
        return len(self.inputs)

    def truth(self) -> float:
        """The statistic without privacy: for comparison, in emulations only."""
        if isinstance(self.question, Levels):
            raise BadInput("without a statistic, what is estimated is the protocol's own; see the answer's truth")
        return self.question.exact(self.inputs)

    @in_python_words
    def plan(
        self,
        epsilon: float,
        *,
        protocol: str = "all",
        like: Floats | None = None,
        trust: Trust = "nobody",
        delta: float | None = None,
    ) -> Plan:
        """Every protocol with its predicted error, best first. Private data play no part in it."""
        check_promises(epsilon, delta)
        return make_plan(
            self.question, epsilon=epsilon, users=self.users, protocol=protocol, like=like, trust=trust, delta=delta
        )

    def protocol(
        self, name: str, epsilon: float, *, delta: float | None = None, quorum: float = 1.0, seed: int | None = None
    ) -> Protocol:
        """The named protocol for this problem; `auto` takes the best of the plan.

        Where it splits users, the groups are drawn for this run. A shuffler must not post fewer replies than the
        quorum, so privacy is computed for so many.
        """
        check_promises(epsilon, delta)
        crowd = min(self.users, max(2, math.ceil(quorum * self.users)))
        made = design(name, self.question, epsilon=epsilon, users=self.users, delta=delta, crowd=crowd)
        return salted(made, public_salt(seed))

    @in_python_words
    def simulate(
        self, *, epsilon: float, protocol: str = "auto", delta: float | None = None, seed: int | None = None
    ) -> Answer:
        """The whole conversation in this process. With a seed it repeats, and is not private."""
        chosen = self.protocol(protocol, epsilon, delta=delta, seed=seed)
        summary = Summary(lambda name, parameters: chosen)
        for _, message in conversation(chosen, self.inputs, coin_key(seed), domain=self.domain):
            summary.hear(message, len(encode(message)), time.monotonic())
        return self.answer(summary, chosen, seed)

    @in_python_words
    def run(
        self,
        *,
        epsilon: float,
        protocol: str = "auto",
        delta: float | None = None,
        seed: int | None = None,
        processes: int | None = None,
        process_per_user: bool = False,
        in_memory: bool = False,
        on: str | None = None,
        out: str | Path | None = None,
        name: str | None = None,
        quorum: float = 1.0,
        conditions: str | Path | None = None,
        keys: str | Path | None = None,
        secure: bool = False,
        wallet: str | Path | None = None,
        signed: bool | None = None,
        seal: bool = False,
        watch: bool = False,
        quiet: bool | None = None,
        **terms: Any,
    ) -> Answer:
        """The conversation between real processes on this machine, on record in a folder.

        The arguments are the options of `parley run`. `in_memory`: in this process and in virtual time instead; with a
        seed every byte of the record repeats. Progress is shown on a terminal and in a notebook unless `quiet`. `terms`
        are deadline, restarts, relays, port and further fields of a `Layout`.
        """
        from parley.launch.results.progress import has_viewer
        from parley.launch.running import hold_run

        def say(text: str) -> None:
            print(f"parley: {python_words(text)}", file=sys.stderr)

        return hold_run(
            lambda: self,
            say,
            epsilon=epsilon,
            protocol=protocol,
            delta=delta,
            seed=seed,
            processes=processes,
            process_per_user=process_per_user,
            in_memory=in_memory,
            on=on,
            out=None if out is None else Path(out),
            name=name,
            quorum=quorum,
            conditions=None if conditions is None else str(conditions),
            keys=None if keys is None else Path(keys),
            secure=secure,
            wallet=None if wallet is None else Path(wallet),
            signed=signed,
            seal=seal,
            watch=watch,
            quiet=not has_viewer() if quiet is None else quiet,
            **terms,
        )

    def layout(self, protocol: Protocol, *, seed: int | None, **options: Any) -> "Layout":
        """Who takes part in a run about this problem, and under which terms."""
        from parley.launch.cluster.layout import Layout

        options |= {"key": coin_key(seed), "repeatable": seed is not None}
        return Layout(protocol=protocol, inputs=self.inputs, domain=self.domain, **options)

    def folder(
        self, out: Path | None, protocol: Protocol, name: str | None = None, *, in_memory: bool = False
    ) -> RunFolder:
        """Where a run goes, named for the question and the protocol unless somebody names it.

        The name of a run in memory says nothing about the time, so that its record repeats.
        """
        usual = protocol.name if isinstance(self.question, Levels) else f"{self.question.name}-{protocol.name}"
        folder = choose_folder(out, name or usual[:40])
        return replace(folder, run=name or usual[:40]) if in_memory else folder

    def answer(self, summary: Summary, protocol: Protocol, seed: int | None, folder: Path | None = None) -> Answer:
        """The result of a finished run with what only the emulation knows."""
        return Answer.of(summary, truth=truth_of(protocol, self.inputs), seed=seed, folder=folder)


def make_problem(
    data: Any = None,
    statistic: str | None = None,
    *,
    columns: str | Sequence[str] = (),
    label: str | None = None,
    levels: int | str | Sequence[int] | None = None,
    ranges: Declared = (),
    categories: Declared = (),
    missing: Missing = "refuse",
    kernel: str | Path | ArrayLike | None = None,
    users: int | None = None,
    synthetic: str | None = None,
    seed: int | None = None,
    protocol_file: str | Path | None = None,
) -> Problem:
    """A problem from a data frame, a mapping of arrays, or a CSV, TSV or Parquet file; one row per user.

    Ranges and categories are declared, never read off the data: a range that follows the data tells about them. Levels
    need not be said where all columns have categories. Rows without a value are refused; `missing="drop"` leaves them
    out, `missing="as-category"` makes them a category called `missing`.

    Without data, `users` synthetic users hold data that a seed makes repeatable. `protocol_file` is a file with
    protocols of your own; those that estimate no statistic of pairs need `levels` and no statistic.
    """
    named = [*names_of(columns), *([] if label is None else [label])]
    described = declared(ranges, categories)
    if levels is None and kernel is None:
        levels = implied_levels(statistic, named, described[1], missing)
    question = ask(statistic, levels, kernel, protocol_file)
    if data is None:
        if named or ranges or categories:
            raise BadInput("--columns, --label, --range and --categories describe a file; name it with --data FILE")
        if users is None:
            raise BadInput("say whose data: --data FILE with --columns, or synthetic users with --users N")
        if not 2 <= users <= MOST_USERS:
            raise BadInput(f"--users {users} cannot be used; give a number from 2 to {MOST_USERS}")
        chosen = synthetic or names(question)[0]
        return Problem(question=question, inputs=draw(chosen, question, users, np.random.default_rng(seed)))
    if users is not None or synthetic is not None:
        raise BadInput("--data already says who the users are; leave out --users and --synthetic")
    if not named:
        raise BadInput("say which columns of the data to use, such as --columns age,score")
    domain = make_domain(question, named, *described, missing)
    encoded = encode_data(data, domain, missing)
    return Problem(
        question=question,
        inputs=encoded.inputs,
        clipped=encoded.clipped,
        dropped=encoded.dropped,
        domain=domain_of(question.size, domain.declared),
    )


problem = in_python_words(make_problem, "problem")


def names_of(columns: str | Sequence[str]) -> list[str]:
    """The names of columns, given one by one or as `age,score`."""
    several = columns.split(",") if isinstance(columns, str) else columns
    return [name.strip() for name in several if name.strip()]


@in_python_words
def coded_problem(
    inputs: ArrayLike,
    statistic: str | None = None,
    *,
    levels: int | str | Sequence[int] | None = None,
    kernel: str | Path | ArrayLike | None = None,
    protocol_file: str | Path | None = None,
) -> Problem:
    """A problem whose inputs are already whole numbers 0 .. k-1."""
    question = ask(statistic, levels, kernel, protocol_file)
    coded = np.asarray(inputs)
    if coded.ndim != 1 or coded.dtype.kind not in "iu":
        raise BadInput(f"inputs should be a list of whole numbers, got {coded.dtype} of shape {coded.shape}")
    check_inputs(coded.astype(np.int64), question.size)
    return Problem(question=question, inputs=coded.astype(np.int64))


def ask(
    statistic: str | None,
    levels: int | str | Sequence[int] | None,
    kernel: str | Path | ArrayLike | None,
    protocol_file: str | Path | None = None,
) -> Workload | Levels:
    """What is asked: a statistic on so many levels, a kernel, or levels alone."""
    if protocol_file is not None:
        add_file(Path(protocol_file))
    if kernel is not None and not isinstance(kernel, str | Path):
        return Kernel(kernel)
    if levels is not None and not isinstance(levels, str):
        levels = "x".join(map(str, np.atleast_1d(np.asarray(levels)).tolist()))
    return make_question(statistic, levels, kernel)


def declared(ranges: Declared, categories: Declared) -> tuple[list[str], list[str]]:
    """Ranges and categories of columns as they are typed: `age=0:120`, `answer=no,maybe,yes`."""
    if isinstance(ranges, Mapping):
        ranges = [f"{name}={low}:{high}" for name, (low, high) in ranges.items()]
    if isinstance(categories, Mapping):
        categories = [f"{name}={','.join(map(str, values))}" for name, values in categories.items()]
    return list(ranges), list(categories)


def check_promises(epsilon: float, delta: float | None = None) -> None:
    """Epsilon and delta that can be promised, or BadInput."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise BadInput(f"--epsilon {epsilon:g} cannot be promised; it must be positive and finite, such as 1")
    if delta is not None and not 0 < delta < 1:
        raise BadInput(f"--delta {delta:g} cannot be promised; it must be above 0 and below 1, such as 1e-6")


def coin_key(seed: int | None) -> bytes:
    """From the operating system, or from the seed of an experiment."""
    return fresh_key() if seed is None else key_from_seed(seed)


def public_salt(seed: int | None) -> int:
    """What splits users into groups. It is public, so it must say nothing about the coins."""
    if seed is None:
        return secrets.randbits(63)
    return int.from_bytes(hashlib.sha256(f"parley salt {seed}".encode()).digest()[:8], "little") >> 1
