"""What is tested: a protocol by its name or from a file, on a few small problems.

A class may say on which problems it is to be tested; each is what `parley run` would be told:

    test_problems = ({"levels": 6}, {"levels": 3, "epsilon": 0.5, "users": 400})
    test_problems = ({"statistic": "kendall", "levels": "3x3"},)

Without that, the kit takes the first kind of problem that the class accepts, small enough for every input and every
reply to be looked at.
"""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from parley.emulator.errors import BadInput, ParleyError
from parley.emulator.protocol import Inputs, Protocol
from parley.launch.testkit.verdicts import Effort
from parley.protocols import registry
from parley.protocols.planned import Planned
from parley.protocols.planning.table import design
from parley.protocols.plugins import add_file, protocols_in
from parley.protocols.workloads.choice import make_question
from parley.protocols.workloads.synthetic import draw, names
from parley.protocols.workloads.workload import Levels, Workload

# Tried in this order; the first kind that a protocol takes is the one it is tested on.
Kinds = tuple[tuple[Mapping[str, Any], ...], ...]
OF_PAIRS: Kinds = (
    ({"statistic": "kendall", "levels": "2x2"}, {"statistic": "kendall", "levels": "3x3"}),
    ({"statistic": "gini-mean-difference", "levels": "4"}, {"statistic": "gini-mean-difference", "levels": "8"}),
    ({"statistic": "gini-diversity", "levels": "3"}, {"statistic": "gini-diversity", "levels": "5"}),
    ({"statistic": "auc", "levels": "2"}, {"statistic": "auc", "levels": "4"}),
)
OF_INPUTS: Kinds = (
    ({"levels": "4"}, {"levels": "9"}),
    ({"levels": "2"}, {"levels": "3"}),
    ({"levels": "2x2"}, {"levels": "3x3"}),
)
EPSILONS: Mapping[Effort, tuple[float, ...]] = {
    "quick": (1.0,),
    "usual": (1.0, 0.25, 4.0),
    "thorough": (1.0, 0.25, 4.0, 0.05, 8.0),
}
USERS = 1000


@dataclass(frozen=True, kw_only=True)
class Case:
    """A protocol made for one small problem."""

    protocol: Protocol
    question: Workload | Levels
    flags: tuple[str, ...]
    epsilon: float
    users: int

    @property
    def title(self) -> str:
        """What the problem is, in a few words."""
        return f"k = {self.protocol.inputs}, epsilon {self.epsilon:g}"

    def inputs(self, users: int | None = None, seed: int = 20) -> Inputs:
        """Inputs of so many users, the same for the same seed."""
        generator = np.random.default_rng(seed)
        if not isinstance(self.question, Workload | Levels):
            # Linear queries have no levels to draw data for.
            return generator.integers(self.protocol.inputs, size=users or self.users)
        return draw(names(self.question)[0], self.question, users or self.users, generator)


@dataclass(frozen=True, kw_only=True)
class Target:
    """The class of a protocol and, if it comes from one, its file."""

    kind: type[Any]
    file: Path | None = None

    @property
    def name(self) -> str:
        return str(self.kind.name)

    @property
    def flags(self) -> tuple[str, ...]:
        """How `parley run` is told of it."""
        own = () if self.file is None else ("--protocol-file", str(self.file))
        return (*own, "--protocol", self.name)

    @property
    def trusts_shuffler(self) -> bool:
        return registry.needs_shuffler(self.kind)

    def raised(self, error: BaseException) -> bool:
        """Whether an error comes out of the protocol's own file."""
        own, trace = inspect.getfile(self.kind), error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != own:
            trace = trace.tb_next
        return trace is not None

    @cached_property
    def problems(self) -> tuple[Mapping[str, Any], ...]:
        """Those that the class declares, or the first kind that it takes, the smaller one first."""
        declared = getattr(self.kind, "test_problems", None)
        if declared is not None:
            if not declared:
                raise BadInput(f"test_problems of {self.name} is empty; leave it out or name a problem")
            return tuple(declared)
        refusals = []
        for kind in OF_PAIRS + OF_INPUTS if issubclass(self.kind, Planned) else OF_INPUTS + OF_PAIRS:
            try:
                self.case(kind[0])
            except BadInput as error:
                refusals.append(str(error))
                continue
            return tuple(kind)
        raise BadInput(f"{self.name} takes none of the kit's problems ({refusals[-1]}); declare test_problems")

    def case(self, problem: Mapping[str, Any], epsilon: float = 1.0, users: int = USERS) -> Case:
        """The protocol for one problem. Whether it keeps its claim is not asked here: that is for the checks."""
        given = dict(problem)
        epsilon, users = float(given.pop("epsilon", epsilon)), int(given.pop("users", users))
        statistic, levels = given.pop("statistic", None), given.pop("levels", None)
        if given or levels is None:
            raise BadInput(
                f"{dict(problem)} of {self.name} is not a problem: give levels and perhaps statistic, epsilon and users"
            )
        question = make_question(statistic, str(levels), None)
        flags = ("--levels", str(levels)) if statistic is None else ("--statistic", statistic, "--levels", str(levels))
        try:
            protocol: Protocol = design(self.kind, question, epsilon=epsilon, users=users)
            protocol.rounds  # noqa: B018
        except ParleyError as error:
            raise BadInput(str(error)) from error
        except (TypeError, AttributeError, LookupError, ValueError, ArithmeticError) as error:
            raise BadInput(f"{self.name} cannot be made for {' '.join(flags)}: {error}") from error
        return Case(protocol=protocol, question=question, flags=flags, epsilon=epsilon, users=users)

    def cases(self, effort: Effort) -> Iterator[Case]:
        """The smaller problem at every epsilon and, with more effort, the larger one at the first."""
        smallest, *others = self.problems[: 1 if effort == "quick" else None]
        for epsilon in EPSILONS[effort][: 1 if "epsilon" in smallest else None]:
            yield self.case(smallest, epsilon)
        yield from (self.case(each) for each in others)

    @cached_property
    def first(self) -> Case:
        """The smallest problem."""
        return self.case(self.problems[0])


def find_target(named: str, protocol: str | None = None) -> Target:
    """The protocol of this name, or that of a file; BadInput where there is none or where there are several."""
    path = Path(named)
    if path.suffix != ".py" and not path.is_file():
        return Target(kind=registry.lookup(named))
    add_file(path)
    kinds = {kind.name: kind for kind in protocols_in(path)}
    if protocol is None and len(kinds) > 1:
        raise BadInput(f"{named} holds {len(kinds)} protocols; choose one with --protocol: {', '.join(sorted(kinds))}")
    chosen = protocol or next(iter(kinds))
    if chosen not in kinds:
        raise BadInput(f"{named} holds no protocol {chosen!r:.80}; it holds {', '.join(sorted(kinds))}")
    return Target(kind=registry.register(kinds[chosen]), file=path)
