"""The contract of a protocol, exactly where that is possible: budget, parameters, likelihoods, loss, sampler.

Each check takes a scene and gives one verdict. `laws.py` lists replies and compares draws with their law.
"""

import math
from typing import Any

import numpy as np

from parley.emulator.errors import BadInput
from parley.emulator.protocol import Protocol, Send, spent
from parley.emulator.randomizer import Floats
from parley.emulator.roles.consent import domain_of
from parley.emulator.wire.codec import decode, encode, pack
from parley.emulator.wire.messages import NONCE_BYTES, Setup
from parley.launch.testkit.contract.checks import bad, check, good, many, untested
from parley.launch.testkit.contract.laws import (
    ALPHA,
    ROUNDING,
    affordable,
    compare,
    compare_posteriors,
    draw,
    largest_losses,
    likelihoods,
    listing,
    sums,
)
from parley.launch.testkit.contract.play import CRASHES
from parley.launch.testkit.contract.scene import Scene, brief, equal
from parley.launch.testkit.verdicts import Verdict
from parley.protocols import registry

DRAWS = {"quick": 10_000, "usual": 30_000, "thorough": 100_000}
SEEDS = {"quick": 8, "usual": 32, "thorough": 128}
SAMPLED = {"quick": 4, "usual": 6, "thorough": 16}
# What a stranger may put in the place of any parameter.
NONSENSE: tuple[Any, ...] = (None, math.nan, math.inf, -1, 0, "?", [], {"a": 1}, True, 2.5, 10**18)


@check("budget")
def check_budget(scene: Scene) -> Verdict:
    """The rounds take no more than the claim from the users of any group, and are as many as it says."""
    protocol = scene.case.protocol
    claim, rounds = protocol.claim, protocol.rounds
    allowed, taken = claim.epsilon_for("nobody"), spent(protocol, rounds)
    each = {step.name: step.epsilon for step in rounds}
    if claim.rounds != len(rounds) or not rounds:
        return bad(f"it claims {claim.rounds} rounds and has {len(rounds)}", rounds=each)
    if not claim.epsilon <= scene.case.epsilon * (1 + ROUNDING):
        return bad(f"it was made for epsilon {scene.case.epsilon:g} and claims {claim.epsilon:g}")
    listed = " + ".join(f"{value:.4g}" for value in each.values())
    if not taken <= allowed * (1 + 1e-12):
        return bad(
            f"its rounds take {listed} = {taken:.6g} from one user; the claim is {allowed:g}",
            rounds=each,
            claim=allowed,
        )
    if not math.isfinite(allowed):
        return good(f"epsilon {claim.epsilon:g} rests on the shuffler; before it nothing is claimed")
    return good(f"rounds take {listed}; at most {taken:.6g} of {allowed:g}", rounds=each, claim=allowed)


def setup_for(protocol: Protocol, nonce: bytes = bytes(NONCE_BYTES), run: str = "test") -> Setup:
    """What the analyst says first."""
    claim = protocol.claim
    return Setup(
        run=run,
        protocol=protocol.name,
        parameters=protocol.parameters(),
        epsilon=claim.epsilon,
        delta=claim.delta,
        rounds=claim.rounds,
        version=protocol.version,
        domain=domain_of(protocol.inputs),
        nonce=nonce,
    )


@check("parameters")
def check_parameters(scene: Scene) -> Verdict:
    """A stranger rebuilds the protocol from its setup, byte for byte, and refuses descriptions that make no sense."""
    protocol = scene.case.protocol
    kind, given = type(protocol), dict(protocol.parameters())
    frame = encode(setup_for(protocol))
    heard = decode(frame)
    assert isinstance(heard, Setup)
    try:
        built = kind.from_parameters(heard.parameters)
    except CRASHES as error:
        return bad(f"its own setup cannot be built again: {error!s:.200}", parameters=sorted(given))
    if encode(setup_for(built)) != frame:
        return bad("built from its own setup, it has another setup", parameters=sorted(given))
    tried = 0
    changes = [("an unknown one", {**given, "surprise": 1})]
    changes += [(f"no {name}", {key: value for key, value in given.items() if key != name}) for name in given]
    changes += [(f"{name} = {value!r}", {**given, name: value}) for name in given for value in NONSENSE]
    for what, changed in changes:
        tried += 1
        try:
            # As a node reads it: whatever breaks is the description's fault.
            other = registry.check_rounds(kind.from_parameters(changed))
        except (BadInput, *registry.MISREAD):
            continue
        # Another value may make sense, and some may be left out; but what is built is what is described.
        if pack(other.parameters()) != pack(changed):
            return bad(f"{what}: a node would build something else instead of refusing it")
    return good(
        f"{many(len(given), 'parameter')} come back byte for byte; {tried} other setups are refused or make sense",
        parameters=sorted(given),
    )


@check("likelihoods sum to one")
def check_likelihoods(scene: Scene) -> Verdict:
    """Under every input, the probabilities of all replies add up to one."""
    generator = np.random.default_rng(1)
    listed, groups, worst, relative = dict[str, str](), 0, 0.0, set[str]()
    for step, public, name, send in scene.sends(SAMPLED[scene.effort] * 4):
        replies = listing(send, generator, SEEDS[scene.effort])
        log = likelihoods(send, replies.replies)
        where = f"{name!r} of round {step.number}"
        if log.shape != (replies.count, send.inputs):
            return bad(f"log_likelihood of {where} has shape {log.shape}, not replies x inputs")
        if np.isnan(log).any() or (log == math.inf).any():
            return bad(f"a likelihood of {where} is not a number", broadcast=brief(public))
        listed[f"{step.number}.{name}"] = replies.how
        if replies.group == 1:
            continue
        totals = sums(log, replies.group)
        groups += totals.size
        off = np.abs(totals - 1)
        if float(off.max()) <= ROUNDING:
            worst = max(worst, float(off.max()))
            continue
        # A likelihood may leave out a factor that is the same for every input; draws decide about those.
        if float(np.ptp(totals, axis=1).max()) <= ROUNDING * float(totals.max()):
            relative.add(where)
            continue
        place = np.unravel_index(int(off.argmax()), off.shape)
        return bad(
            f"{where}: the probabilities of {replies.how} add up to {totals[place]:.9g} for input {place[1]}",
            broadcast=brief(public),
        )
    if not groups:
        return untested("replies cannot be listed; draws are compared with the likelihoods instead", how=listed)
    left = f"; {', '.join(sorted(relative))} up to a common factor" if relative else ""
    return good(f"{groups:,} sums are 1 within {worst:.1g}{left}", how=listed, sums=groups)


@check("exact loss")
def check_loss(scene: Scene) -> Verdict:
    """The exact loss between every two inputs, over all replies and the worst broadcasts, is within the claim."""
    protocol, generator = scene.case.protocol, np.random.default_rng(2)
    allowed, inputs = protocol.claim.epsilon_for("nobody"), protocol.inputs
    worst: dict[int, Floats] = {step.number: np.zeros((inputs, inputs)) for step in protocol.rounds}
    looked, replies, broken = 0, 0, dict[str, Any]()
    for step in protocol.rounds:
        known: list[tuple[Send, Floats]] = []
        for public in scene.rounds[step.number].all:
            looked += 1
            losses = np.zeros((inputs, inputs))
            for name, send in step.sends(public).items():
                before = next((found for other, found in known if equal(send, other)), None)
                if before is not None:
                    losses += before
                    continue
                listed = listing(send, generator, SEEDS[scene.effort])
                replies += listed.count
                own = largest_losses(likelihoods(send, listed.replies))
                declared = send.randomizer.epsilon
                if float(own.max()) > declared + ROUNDING and float(own.max()) > float(broken.get("loss", 0.0)):
                    x, y = (int(place) for place in np.unravel_index(int(own.argmax()), own.shape))
                    broken = {
                        "loss": float(own.max()),
                        "declared": declared,
                        "send": name,
                        "round": step.number,
                        "inputs": [x, y],
                        "broadcast": brief(public),
                        "replies": listed.how,
                    }
                known.append((send, own))
                losses += own
            worst[step.number] = np.maximum(worst[step.number], losses)
    if broken:
        x, y = broken["inputs"]
        return bad(
            f"{broken['send']!r} of round {broken['round']} tells input {x} from {y} with loss {broken['loss']:.6g}; "
            f"its randomizer declares {broken['declared']:.6g}",
            **broken,
        )
    if not math.isfinite(allowed):
        return untested("before the shuffler nothing is claimed; the loss behind it rests on its theorem")
    totals = [
        sum(
            (worst[each.number] for each in protocol.rounds if protocol.participates(each.number, group)),
            np.zeros((inputs, inputs)),
        )
        for group in range(protocol.groups)
    ]
    loss = max(float(each.max()) for each in totals)
    evidence = {"loss": loss, "claim": allowed, "broadcasts": looked, "replies": replies}
    if not loss <= allowed + ROUNDING:
        return bad(f"all rounds together lose {loss:.6g}; the claim is {allowed:g}", **evidence)
    if loss == 0.0 and inputs > 1:
        return bad("no reply depends on the input at all, so there is nothing to estimate", **evidence)
    return good(f"at most {loss:.6g} of {allowed:g}; {replies:,} replies, {many(looked, 'broadcast')}", **evidence)


@check("crafted replies")
def check_crafted(scene: Scene) -> Verdict:
    """What no honest user can send is refused; it would count like any other reply, or for more."""
    generator, tried = np.random.default_rng(7), 0
    for step, public, name, send in scene.sends(SAMPLED[scene.effort]):
        if not math.isfinite(send.randomizer.epsilon):
            # Shares of a number: only together are they something that nobody can send.
            continue
        honest = draw(send, np.arange(send.inputs), generator)
        for column, (dtype, _) in send.randomizer.reply.items():
            for value in _crafted(dtype):
                crafted = {each: np.array(values) for each, values in honest.items()}
                crafted[column].reshape(send.inputs, -1)[:, 0] = value
                taken = np.asarray(send.randomizer.check(crafted))
                tried += 1
                if not taken.any():
                    continue
                where = f"round {step.number} takes {value!r} as {column!r} of {name!r}"
                try:
                    log = likelihoods(send, {each: values[taken] for each, values in crafted.items()})
                except LookupError:
                    log = np.full((1, send.inputs), -np.inf)
                if not np.isfinite(log.max(axis=1)).all():
                    return bad(f"{where}, which no user can send", broadcast=brief(public))
    return good(f"{tried} kinds of altered replies; those that nobody can send are refused", tried=tried)


def _crafted(dtype: np.dtype[Any]) -> list[Any]:
    if dtype.kind == "f":
        return [math.nan, math.inf, -math.inf]
    if dtype.kind not in "iu":
        return []
    info = np.iinfo(dtype)
    return sorted({info.min, -1 if info.min else info.max // 2, 2, info.max - 1, info.max})


@check("sampler follows likelihood")
def check_sampler(scene: Scene) -> Verdict:
    """What is drawn follows the likelihood: for every input, under several broadcasts."""
    draws = DRAWS[scene.effort]
    sends = list(scene.sends(SAMPLED[scene.effort]))
    tests = sum(2 * send.inputs + 1 for *_, send in sends)
    # Large domains and vectors share the draws, so that the time stays the same.
    made, seen, most = 0, 0, 0.0
    for number, (step, public, name, send) in enumerate(sends):
        listed = listing(send, np.random.default_rng([3, number]), 1)
        log = likelihoods(send, listed.replies)
        for x in range(send.inputs):
            generator, share = (
                np.random.default_rng([3, number, x]),
                affordable(send, draws // max(1, send.inputs // 4)),
            )
            compared = compare(send, x, listed, log, share, generator, ALPHA / tests)
            if x == 0:
                # More of them where users differ: some may be few.
                wanted = draws if send.given is None else 4 * draws
                compared.append(compare_posteriors(send, affordable(send, wanted), generator, ALPHA / tests))
            for found in compared:
                made, seen = made + 1, seen + found.draws
                if not found.agrees:
                    return bad(
                        f"{name!r} of round {step.number}, input {x}: {found.how} gives {found.statistic:.4g} in "
                        f"{found.draws:,} draws; chance gives at most {found.threshold:.4g}",
                        broadcast=brief(public),
                        statistic=found.statistic,
                        threshold=found.threshold,
                        draws=found.draws,
                        alpha=ALPHA / tests,
                    )
                if found.threshold:
                    most = max(most, found.statistic / found.threshold)
    return good(f"{made} tests of {seen:,} draws agree", tests=made, draws=seen, largest_share=most)
