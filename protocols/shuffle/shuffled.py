"""One round through a shuffler: the codebook replies of `one-round-tuned`, anonymous, with a larger local epsilon.

The paper's remark on the shuffle model in its simplest form: one message a user, permuted with all others. Since nobody
knows whose reply is whose, replies that are eps_0-LDP are together (eps, delta)-DP with an eps far below eps_0
(`amplification.py`). Here eps and delta are given, and eps_0 is the largest for which that can be shown.

Replies stay whole: the estimator of one round works on them as before, sum y_i'Dy_i included.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Claim
from parley.emulator.roles.mixing import Mixing
from parley.emulator.wire.sealing import gives_secret
from parley.protocols.factorization.approximation import read_signed
from parley.protocols.legacy_pairwise import common
from parley.protocols.legacy_rounds import LegacyRound as Round
from parley.protocols.limits import affordable
from parley.protocols.parameters import count, number
from parley.protocols.randomizers.exact import LARGEST_EPSILON
from parley.protocols.randomizers.vectors.codebook import Codebook
from parley.protocols.shuffle.amplification import check_delta, delta_bound, largest_local_epsilon, of_choice
from parley.protocols.shuffle.crowd import DEFAULT_DELTA, PROTECTS, check_crowd, read_crowd
from parley.protocols.shuffle.sealed import SealedRound
from parley.protocols.tuned.one_round_tuned import LARGEST_WEIGHT, OneRoundTuned
from parley.protocols.workloads.auc import AreaUnderCurve
from parley.protocols.workloads.workload import Workload

# A large local epsilon is worth nothing where candidates are few: the best of many is nearer to the input.
SIZES = (4, 8, 16, 32, 64, 128, 256)
WORTH = 1.03
FIRST_SIZE = 64


@dataclass(frozen=True, kw_only=True)
class Shuffled(OneRoundTuned):
    """One codebook reply a user through the shuffler.

    Formal guarantee: every reply is eps_0-LDP exactly. If the shuffler permutes the replies of at least `crowd` honest
    users and keeps the permutation to itself, the transcript is (eps, delta)-DP: `delta_bound` of the codebook's own
    probabilities is at most delta, checked by every party that builds the protocol. With a shuffler that does not keep
    it, or where there is none, eps_0-LDP remains.
    """

    name: ClassVar[str] = "shuffled"
    summary: ClassVar[str] = "One vector a user through a shuffler, its local epsilon as large as (eps, delta) allows"
    needs_shuffler: ClassVar[bool] = True

    delta: float
    local_epsilon: float
    crowd: int
    seal: str = ""
    opener: bytes = field(default=b"", repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_delta(self.delta)
        check_crowd(self.crowd, self.users)
        shown = self.delta_shown(self.crowd)
        if shown > self.delta:
            raise BadInput(
                f"delta(eps; eps_0, n) <= delta fails: {shown:.3g} > {self.delta:g} for eps {self.epsilon:g}, "
                f"eps_0 {self.local_epsilon:g} and n = {self.crowd}; take more users or a smaller local epsilon"
            )

    @classmethod
    def design(
        cls,
        workload: Workload,
        *,
        epsilon: float,
        users: int,
        delta: float = DEFAULT_DELTA,
        crowd: int | None = None,
    ) -> Self:
        """The largest local epsilon there is a proof for, and the factors and the codebook that suit it."""
        least = check_crowd(users if crowd is None else crowd, users)
        local = largest_local_epsilon(FIRST_SIZE, 1, least, epsilon, delta)
        base = OneRoundTuned.design(workload, epsilon=local, users=users)
        codebook = _codebook(base.vector)
        local = largest_local_epsilon(codebook.candidates, codebook.favoured, least, epsilon, delta)
        return cls(
            workload=base.workload,
            epsilon=epsilon,
            users=users,
            approximation=base.approximation,
            candidates=codebook.candidates,
            best=codebook.favoured,
            weight=base.weight,
            delta=delta,
            local_epsilon=local,
            crowd=least,
        )

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any]) -> Self:
        own = ("delta", "local_epsilon", "shuffle", "candidates", "best", "weight")
        fields = common(parameters, *own, optional=("factor", "signs", "rows", "seal"))
        candidates = count(parameters, "candidates", 2, SIZES[-1])
        weight = number(parameters, "weight", 0.0, LARGEST_WEIGHT)
        if weight and not isinstance(fields["workload"], AreaUnderCurve):
            raise BadInput(f"a label of weight {weight} makes sense for the AUC alone")
        return cls(
            **fields,
            approximation=read_signed(fields["workload"], parameters),
            candidates=candidates,
            best=count(parameters, "best", 1, candidates // 2),
            weight=weight,
            delta=number(parameters, "delta", 0.0, 1.0),
            local_epsilon=number(parameters, "local_epsilon", 0.0, LARGEST_EPSILON),
            crowd=read_crowd(parameters, fields["users"], {}),
            seal=_public_key(parameters),
        )

    def parameters(self) -> Mapping[str, Any]:
        mixing = Mixing(crowd=self.crowd).parameters()
        own = {"delta": self.delta, "local_epsilon": self.local_epsilon, "shuffle": mixing}
        return {**super().parameters(), **own, **({"seal": self.seal} if self.seal else {})}

    @property
    def claim(self) -> Claim:
        return Claim(
            epsilon=self.epsilon,
            delta=self.delta,
            rounds=len(self.rounds),
            interaction=self.interaction,
            protects_from=(
                f"{PROTECTS}; from the shuffler alone by {'sealed boxes' if self.seal else 'its local epsilon'}; "
                f"from both together by epsilon {self.local_epsilon:.4g}"
            ),
            trusts="shuffler",
            local_epsilon=max(self.local_epsilon, self.epsilon),
        )

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The one round; where replies are sealed, in boxes for the analyst."""
        return (SealedRound(self.step, bytes.fromhex(self.seal), self.opener),) if self.seal else (self.step,)

    def delta_shown(self, replies: int) -> float:
        if self.local_epsilon <= self.epsilon:
            return 0.0
        return delta_bound(of_choice(self.vector.choice), replies, self.epsilon)

    @cached_property
    def vector(self) -> Codebook:
        """VRand with the local epsilon."""
        return Codebook(
            dimension=self.encoded.rows,
            radius=self.encoded.radius,
            epsilon=self.local_epsilon,
            candidates=self.candidates,
            best=self.best,
        )


def _public_key(parameters: Mapping[str, Any]) -> str:
    if "seal" not in parameters:
        return ""
    key = parameters["seal"]
    if not isinstance(key, str) or not re.fullmatch(r"[0-9a-f]{64}", key):
        raise BadInput("protocol parameter seal should be a key of 64 hexadecimal digits")
    if not gives_secret(bytes.fromhex(key)):
        raise BadInput("protocol parameter seal is a point of small order: boxes for it would be open to everybody")
    return key


def _codebook(base: Codebook) -> Codebook:
    """The fewest candidates whose variance is nearly the least, each size with its best t."""
    tried = [replace(base, candidates=size, best=None) for size in affordable(SIZES, base.ambient)]
    least = min(each.variance for each in tried)
    return next(each for each in tried if each.variance <= WORTH * least)
