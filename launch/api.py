"""A problem: a question about private inputs. Python and the command line make it here, with the same options.

import parley

problem = parley.problem(frame, "kendall", columns=("age", "score"), levels=(16, 16),
                         ranges={"age": (18, 90), "score": (0, 100)})
print(problem.simulate(epsilon=1.0))
print(problem.run(epsilon=1.0, processes=4))
"""

import hashlib
import json
import math
import secrets
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from parley.emulator.arithmetic import one_thread
from parley.emulator.coins import fresh_key, key_from_seed
from parley.emulator.errors import BadInput
from parley.emulator.protocol import Inputs, Protocol, Trust
from parley.emulator.randomizer import Floats
from parley.emulator.record.question import Question, check_title
from parley.emulator.record.question import make_question as describe_question
from parley.emulator.record.summary import Summary
from parley.emulator.roles.consent import domain_of
from parley.emulator.simulate import conversation
from parley.emulator.wire.codec import encode
from parley.launch.bins import QUANTILE, RANKS, Wanted, binned_truth, coarse_levels, unbinned_truth, wraps
from parley.launch.data import encode_data
from parley.launch.notebook import in_python_words, python_words
from parley.launch.results.answer import Answer, workload_name
from parley.launch.results.display.wording import usual_title
from parley.launch.results.folder import RunFolder, choose_folder
from parley.launch.results.plans import Plan, make_plan
from parley.protocols.limits import check_sums
from parley.protocols.plugins import add_file
from parley.protocols.randomizers.exact import check_epsilon
from parley.protocols.registry import design
from parley.protocols.tuned.groups import salted
from parley.protocols.workloads.choice import Missing, implied_levels, make_domain, make_question
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.synthetic import draw, names
from parley.protocols.workloads.workload import Levels, Workload, check_inputs

if TYPE_CHECKING:
    from parley.launch.cluster.layout import Layout

MOST_USERS = 10**9
LARGEST_SEED = 2**127
BINNED = "binned"
# User nodes, unless somebody says how many.
USUAL_PROCESSES = 4
Declared = Mapping[str, Any] | Iterable[str]
LevelsGiven = int | str | Sequence[int] | None
KernelGiven = str | Path | ArrayLike | None


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
    title: str = ""
    """What people call it; empty for the usual words."""
    origin: str = ""
    """The name of the data's file, or the kind of synthetic data; private, because it may tell who the users are."""
    bins: tuple[int, ...] | None = None
    """At quantiles: how many bins each column is to have, () for as many as are best. None where bins are inputs."""
    unbinned: float | None = None
    """The statistic of the values before they were put into bins; None where inputs are all there is."""

    def __repr__(self) -> str:
        return f"<{self.question.name} of {self.users} users with {self.question.size} possible inputs each>"

    @property
    def users(self) -> int:
        return len(self.inputs)

    @property
    def source(self) -> dict[str, Any]:
        """Where the inputs come from: for the private side of an emulation, because it depends on the data."""
        known = {"origin": self.origin, "clipped": dict(self.clipped), "dropped": self.dropped}
        return {name: value for name, value in known.items() if value}

    def described(self, protocol: Protocol) -> Question:
        """The question in public words: what the header of its record says."""
        return describe(self.question, self.domain or {}, self.title, protocol.name, synthetic=bool(self.origin))

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
        chosen: dict[str, Any] = {"protocol": protocol, "like": like, "trust": trust, "delta": delta}
        return make_plan(self.question, epsilon=epsilon, users=self.users, bins=self.bins, **chosen)

    def protocol(
        self, name: str, epsilon: float, *, delta: float | None = None, quorum: float = 1.0, seed: int | None = None
    ) -> Protocol:
        """The named protocol for this problem; `auto` takes the best of the plan.

        Where it splits users, the groups are drawn for this run. A shuffler must not post fewer replies than the
        quorum, so privacy is computed for so many.
        """
        check_promises(epsilon, delta)
        if not 0 < quorum <= 1:
            raise BadInput(f"a quorum of {quorum} is not a share of the users: give a number in (0, 1]")
        chosen = self.designed(name, epsilon, delta=delta, quorum=quorum)
        check_sums(chosen, self.users)
        return salted(chosen, public_salt(seed))

    def designed(self, name: str, epsilon: float, *, delta: float | None = None, quorum: float = 1.0) -> Protocol:
        """The same before its groups are drawn."""
        crowd = min(self.users, max(2, math.ceil(quorum * self.users)))
        with one_thread():
            if wraps(self.question, self.bins is not None):
                bins = self.question.shape if self.bins is None else self.bins or None
                asked: dict[str, Any] = {"levels": bins, "inner": "auto" if name == BINNED else name}
                return design(BINNED, self.question, epsilon=epsilon, users=self.users, **asked)
            return design(name, self.question, epsilon=epsilon, users=self.users, delta=delta, crowd=crowd)

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
        open_page: bool = False,
        quiet: bool | None = None,
        **terms: Any,
    ) -> Answer:
        """The conversation between real processes on this machine, on record in a folder.

        The arguments are the options of `parley run`. `in_memory`: in this process and in virtual time instead; with a
        seed every byte of the record repeats. Progress is shown on a terminal and in a notebook unless `quiet`. `terms`
        are deadline, restarts, relays, port and further fields of a `Layout`.
        """
        # First of all, while there are no others: the arguments are called like those of `hold_run`.
        options = {each: value for each, value in locals().items() if each not in ("self", "terms")}
        from parley.launch.results.display.progress import has_viewer
        from parley.launch.running import hold_run

        def say(text: str) -> None:
            print(f"parley: {python_words(text)}", file=sys.stderr)

        options["quiet"] = not has_viewer() if quiet is None else quiet
        return hold_run(lambda: self, say, **options, **terms)

    def layout(self, protocol: Protocol, *, seed: int | None, **options: Any) -> "Layout":
        from parley.launch.cluster.layout import Layout

        options |= {"key": coin_key(seed), "repeatable": seed is not None}
        unbinned = {} if self.unbinned is None else {"unbinned": self.unbinned}
        options |= {"question": self.described(protocol), "source": {**self.source, **unbinned}}
        return Layout(protocol=protocol, inputs=self.inputs, domain=self.domain, **options)

    def folder(self, out: Path | None, protocol: Protocol, name: str | None, *, in_memory: bool) -> RunFolder:
        """Where a run goes, named for the question and the protocol unless somebody names it.

        The name of a run in memory says nothing about the time, so that its record repeats.
        """
        usual = protocol.name if isinstance(self.question, Levels) else f"{self.question.name}-{protocol.name}"
        name = usual[:40] if name is None else name
        folder = choose_folder(out, name)
        return replace(folder, run=name) if in_memory else folder

    def answer(self, summary: Summary, protocol: Protocol, seed: int | None, folder: Path | None = None) -> Answer:
        """The result of a finished run with what only the emulation knows."""
        question = self.described(protocol)
        # As result.json holds it: lists instead of tuples.
        about = {"title": question["title"], "question": json.loads(json.dumps(question)), "source": self.source}
        truths = {"truth": binned_truth(protocol, self.inputs, summary), "truth_unbinned": self.unbinned}
        return Answer.of(summary, **truths, seed=seed, folder=folder, **about)


def make_problem(
    data: Any = None,
    statistic: str | None = None,
    *,
    columns: str | Sequence[str] = (),
    label: str | None = None,
    levels: LevelsGiven = None,
    bins: str | Sequence[str] = (),
    ranges: Declared = (),
    categories: Declared = (),
    missing: Missing = "refuse",
    kernel: KernelGiven = None,
    users: int | None = None,
    synthetic: str | None = None,
    seed: int | None = None,
    protocol_file: str | Path | None = None,
    title: str | None = None,
) -> Problem:
    """A problem from a data frame, a mapping of arrays, or a CSV, TSV or Parquet file; one row per user.

    Ranges and categories are declared, never read off the data: a range that follows the data tells about them. Levels
    need not be said where all columns have categories. Rows without a value are refused; `missing="drop"` leaves them
    out, `missing="as-category"` makes them a category called `missing`. The title stands in the record and over its
    report; without one it is the statistic with its columns.

    Bins are equally wide. With `bins="quantile"` a run finds them privately: users consent to a range and a resolution,
    `"age=18:90/720"`, and `levels="auto"` takes as many bins as are best. `bins="age=18,30,45,65,90"` declares edges.

    Without data, `users` synthetic users hold data that a seed makes repeatable. `protocol_file` is a file with
    protocols of your own; those that estimate no statistic of pairs need `levels` and no statistic.
    """
    named = [*names_of(columns), *([] if label is None else [label])]
    described = declared(ranges, categories)
    check_seed(seed)
    if missing not in get_args(Missing):
        raise BadInput(f"--missing {missing!r} is not one of {', '.join(get_args(Missing))}")
    question, chosen_bins, wanted = asked_for(
        statistic, levels, bins, named, *described, missing=missing, kernel=kernel, protocol_file=protocol_file
    )
    described = list(wanted.ranges), described[1]
    if title is not None:
        check_title(title)
    if data is None:
        if missing != "refuse":
            raise BadInput("--missing is about rows of a file; name it with --data FILE")
        if named or ranges or categories:
            raise BadInput("--columns, --label, --range and --categories describe a file; name it with --data FILE")
        if users is None:
            raise BadInput("say whose data: --data FILE with --columns, or synthetic users with --users N")
        if not 2 <= users <= MOST_USERS:
            raise BadInput(f"--users {users} cannot be used; give a number from 2 to {MOST_USERS}")
        chosen = names(question)[0] if synthetic is None else synthetic
        inputs = draw(chosen, question, users, np.random.default_rng(seed))
        origin = f"synthetic: {chosen}"
        return Problem(question=question, bins=chosen_bins, inputs=inputs, title=title or "", origin=origin)
    if users is not None or synthetic is not None:
        raise BadInput("--data already says who the users are; leave out --users and --synthetic")
    if not named:
        raise BadInput("say which columns of the data to use, such as --columns age,score")
    domain = make_domain(question, named, *described, missing, wanted.edges)
    encoded = encode_data(data, domain, missing, keep=question.name in RANKS)
    return Problem(
        question=question,
        inputs=encoded.inputs,
        clipped=encoded.clipped,
        dropped=encoded.dropped,
        domain=domain_of(question.size, domain.declared),
        bins=chosen_bins,
        unbinned=unbinned_truth(question.name, (encoded.values.pop(name) for name in domain.columns)),
        title=title or "",
        origin=Path(data).name if isinstance(data, str | Path) else "",
    )


def asked_for(
    statistic: str | None,
    levels: LevelsGiven,
    bins: str | Sequence[str],
    named: Sequence[str],
    ranges: Sequence[str],
    categories: Sequence[str],
    *,
    missing: Missing = "refuse",
    kernel: KernelGiven = None,
    protocol_file: str | Path | None = None,
) -> tuple[Workload | Levels, tuple[int, ...] | None, Wanted]:
    """The question, how many bins to make of its levels (see `Problem.bins`), and what else was said about bins."""
    wanted = Wanted.of([bins] if isinstance(bins, str) else bins, ranges)
    said = wanted.levels(statistic, as_typed(levels), named)
    if wanted.kind == QUANTILE:
        question = ask(statistic, wanted.fine_levels(statistic, named, categories), kernel, protocol_file)
        return question, coarse_levels(said, question.shape) or (), wanted
    if said is None and kernel is None:
        said = implied_levels(statistic, named, categories, missing)
    return ask(statistic, said, kernel, protocol_file), None, wanted


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
    levels: LevelsGiven = None,
    kernel: KernelGiven = None,
    protocol_file: str | Path | None = None,
) -> Problem:
    """A problem whose inputs are already whole numbers 0 .. k-1."""
    question = ask(statistic, levels, kernel, protocol_file)
    coded = np.asarray(inputs)
    if coded.ndim != 1 or coded.dtype.kind not in "iu":
        raise BadInput(f"inputs should be a list of whole numbers, got {coded.dtype} of shape {coded.shape}")
    check_inputs(coded, question.size)
    return Problem(question=question, inputs=coded.astype(np.min_scalar_type(question.size - 1)))


def ask(
    statistic: str | None, levels: LevelsGiven, kernel: KernelGiven, protocol_file: str | Path | None = None
) -> Workload | Levels:
    """What is asked: a statistic on so many levels, a kernel, or levels alone."""
    if protocol_file is not None:
        add_file(Path(protocol_file))
    if kernel is not None and not isinstance(kernel, str | Path):
        return Kernel(kernel)
    return make_question(statistic, as_typed(levels), kernel)


def as_typed(levels: LevelsGiven) -> str | None:
    """Levels as they are typed: `16x16`."""
    if levels is None or isinstance(levels, str):
        return levels
    return "x".join(map(str, np.atleast_1d(np.asarray(levels)).tolist()))


def describe(
    question: Workload | Levels, domain: Mapping[str, Any], title: str, protocol: str, *, synthetic: bool = False
) -> Question:
    """A question in public words. Without a title it is called by its statistic and columns."""
    statistic = protocol if isinstance(question, Levels) else workload_name(question.parameters()) or question.name
    columns = [str(column["name"]) for column in domain.get("columns", ())]
    usual = usual_title(statistic, columns, synthetic=synthetic)
    return describe_question(title or usual, question.shape, domain)


def declared(ranges: Declared, categories: Declared) -> tuple[list[str], list[str]]:
    """Ranges and categories of columns as they are typed: `age=0:120`, `answer=no,maybe,yes`."""
    if isinstance(ranges, Mapping):
        ranges = [f"{name}={_ends(name, each)}" for name, each in ranges.items()]
    if isinstance(categories, Mapping):
        categories = [f"{name}={','.join(map(str, values))}" for name, values in categories.items()]
    return list(ranges), list(categories)


def _ends(name: str, given: Any) -> str:
    """The two ends of a range as they are typed."""
    try:
        low, high = given.rsplit(":", 1) if isinstance(given, str) else given
    except (TypeError, ValueError):
        raise BadInput(f"the range of {name} should be two numbers or dates, such as (0, 100), got {given!r}") from None
    return f"{low}:{high}"


def check_promises(epsilon: float, delta: float | None = None) -> None:
    """Epsilon and delta that can be promised, or BadInput."""
    check_epsilon(epsilon)
    if delta is not None and not 0 < delta < 1:
        raise BadInput(f"--delta {delta:g} cannot be promised; it must be above 0 and below 1, such as 1e-6")


def check_seed(seed: int | None) -> None:
    if seed is not None and not 0 <= seed < LARGEST_SEED:
        raise BadInput(f"--seed {seed} cannot be used; give a whole number from 0 to 2^127 - 1")


def coin_key(seed: int | None) -> bytes:
    """From the operating system, or from the seed of an experiment."""
    check_seed(seed)
    return fresh_key() if seed is None else key_from_seed(seed)


def public_salt(seed: int | None) -> int:
    """What splits users into groups. It is public, so it must say nothing about the coins."""
    if seed is None:
        return secrets.randbits(63)
    return int.from_bytes(hashlib.sha256(f"parley salt {seed}".encode()).digest()[:8], "little") >> 1
