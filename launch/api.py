"""The same from Python: a problem from columns, `simulate` in one line, `run` between processes.

import parley

problem = parley.problem(frame, "kendall", columns=("age", "score"), levels=(16, 16),
                         ranges={"age": (18, 90), "score": (0, 100)})
print(problem.simulate(epsilon=1.0))
print(problem.run(epsilon=1.0, processes=4))
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parley.emulator.coins import fresh_key, key_from_seed
from parley.emulator.errors import BadInput, LocalProtocolError
from parley.emulator.protocol import Inputs, Protocol
from parley.emulator.roles.consent import domain_of
from parley.emulator.simulate import conversation
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import BROADCASTS, Announce, Message, Reminder, Replies, Result
from parley.launch.data import columns_of, read_columns
from parley.launch.results.answer import Answer
from parley.launch.results.summary import summarize, true_answer
from parley.launch.version import release
from parley.protocols.planning.plan import Option, plan
from parley.protocols.registry import design
from parley.protocols.workloads.choice import make_domain, make_workload
from parley.protocols.workloads.kernel import Kernel
from parley.protocols.workloads.workload import Workload, check_inputs


@dataclass(frozen=True, kw_only=True, repr=False)
class Problem:
    """A statistic of private inputs. The inputs never show in its text."""

    workload: Workload
    inputs: Inputs
    clipped: Mapping[str, int]
    domain: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        return f"<{self.workload.name} of {len(self.inputs)} users with {self.workload.size} possible inputs each>"

    @property
    def users(self) -> int:
        return len(self.inputs)

    def truth(self) -> float:
        """The statistic without privacy: for comparison, in emulations only."""
        return self.workload.exact(self.inputs)

    def plan(self, epsilon: float) -> list[Option]:
        """Every protocol with its predicted error, best first. Private data play no part in it."""
        return plan(self.workload, epsilon, self.users)

    def protocol(self, name: str, epsilon: float) -> Protocol:
        """The named protocol for this problem; `auto` takes the best of the plan."""
        return design(name, self.workload, epsilon=epsilon, users=self.users)

    def simulate(self, *, epsilon: float, protocol: str = "auto", seed: int | None = None) -> Answer:
        """The whole conversation in this process. With a seed it repeats, and is not private."""
        chosen = self.protocol(protocol, epsilon)
        began = time.monotonic()
        tally = _Tally()
        for _, message in conversation(chosen, self.inputs, _key(seed), domain=self.domain):
            tally.take(message)
        return tally.answer(chosen, self, time.monotonic() - began, seed)

    def run(
        self,
        *,
        epsilon: float,
        protocol: str = "auto",
        processes: int | None = None,
        seed: int | None = None,
        out: str | Path | None = None,
        deadline: float = 600.0,
        quorum: float = 1.0,
    ) -> Answer:
        """The conversation between real processes on this machine, on record in a folder."""
        from parley.launch.cluster.cluster import Cluster, Layout
        from parley.launch.results.folder import choose_folder
        from parley.launch.results.progress import make_progress

        layout = Layout(
            protocol=self.protocol(protocol, epsilon),
            inputs=self.inputs,
            key=_key(seed),
            processes=min(4, self.users) if processes is None else processes,
            deadline=deadline,
            quorum=quorum,
            domain=self.domain,
            repeatable=seed is not None,
        )
        name = f"{self.workload.name}-{layout.protocol.name}"[:40]
        folder = choose_folder(None if out is None else Path(out), name)
        with make_progress(quiet=True) as progress:
            Cluster(layout, folder, progress).run()
        truth = true_answer(layout.protocol, self.inputs, self.truth)
        record = {**summarize(folder.transcript).record(), "truth": truth, "seed": seed, "version": release()}
        answer = Answer.from_record(record, folder.path)
        folder.write_result(answer.record())
        return answer


def problem(
    data: Any,
    statistic: str | None = None,
    *,
    columns: Sequence[str] = (),
    levels: int | Sequence[int] | None = None,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    categories: Mapping[str, Sequence[str]] | None = None,
    kernel: str | Path | ArrayLike | None = None,
) -> Problem:
    """A problem from a data frame, a mapping of arrays, or a CSV, TSV or Parquet file; one row a user.

    Ranges and categories are declared, never read off the data: a range that follows the data tells about them.
    """
    workload = _workload(statistic, levels, kernel)
    declared = [f"{name}={low!r}:{high!r}" for name, (low, high) in (ranges or {}).items()]
    named = [f"{name}={','.join(values)}" for name, values in (categories or {}).items()]
    domain = make_domain(workload, list(columns), declared, named)
    found = read_columns(Path(data), columns) if isinstance(data, str | Path) else columns_of(data, columns)
    encoded = domain.encode(found)
    meaning = domain_of(workload.size, domain.declared)
    return Problem(workload=workload, inputs=encoded.indices, clipped=dict(encoded.clipped), domain=meaning)


def coded_problem(
    inputs: ArrayLike,
    statistic: str | None = None,
    *,
    levels: int | Sequence[int] | None = None,
    kernel: str | Path | ArrayLike | None = None,
) -> Problem:
    """A problem whose inputs are already whole numbers 0 .. k-1."""
    workload = _workload(statistic, levels, kernel)
    coded = np.asarray(inputs)
    if coded.ndim != 1 or coded.dtype.kind not in "iu":
        raise BadInput(f"inputs should be a list of whole numbers, got {coded.dtype} of shape {coded.shape}")
    check_inputs(coded.astype(np.int64), workload.size)
    return Problem(workload=workload, inputs=coded.astype(np.int64), clipped={})


def _workload(
    statistic: str | None, levels: int | Sequence[int] | None, kernel: str | Path | ArrayLike | None
) -> Workload:
    if kernel is not None and not isinstance(kernel, str | Path):
        return Kernel(kernel)
    words = None if levels is None else "x".join(map(str, np.atleast_1d(np.asarray(levels)).tolist()))
    return make_workload(statistic, words, kernel)


def _key(seed: int | None) -> bytes:
    return fresh_key() if seed is None else key_from_seed(seed)


class _Tally:
    """What a simulated conversation adds up to: rounds and bytes are counted, not declared."""

    def __init__(self) -> None:
        self.observed, self.up, self.down = 0, 0, 0
        self.result: Result | None = None
        self._asked = False

    def take(self, message: Message) -> None:
        if isinstance(message, Replies):
            self.observed += self._asked
            self._asked = False
            self.up += len(encode(message))
        elif isinstance(message, BROADCASTS) and not isinstance(message, Reminder):
            self.down += len(encode(message))
            self._asked = self._asked or isinstance(message, Announce)
        if isinstance(message, Result):
            self.result = message

    def answer(self, protocol: Protocol, asked: Problem, seconds: float, seed: int | None) -> Answer:
        if self.result is None:
            raise LocalProtocolError("the simulated run ended without a result")
        return Answer(
            estimate=self.result.estimate,
            interval95=(self.result.low, self.result.high),
            predicted_rmse=self.result.predicted_rmse,
            statistic=asked.workload.name,
            protocol=protocol.name,
            epsilon=protocol.claim.epsilon,
            delta=protocol.claim.delta,
            users=asked.users,
            replied=asked.users,
            rounds_declared=protocol.claim.rounds,
            rounds_observed=self.observed,
            bytes_up=self.up / asked.users,
            bytes_down=float(self.down),
            seconds=seconds,
            truth=true_answer(protocol, asked.inputs, asked.truth),
            seed=seed,
            version=release(),
        )
