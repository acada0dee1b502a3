"""What users' nodes do: coins, sharding, tallies, hostile broadcasts, and what is visible of a node.

Where it matters, the checks go through `CohortRole`, the code that a user's node runs.
"""

import io
import logging
import math
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import numpy as np

from parley.emulator.coins import key_from_seed, nonce_from_key
from parley.emulator.errors import RemoteProtocolError
from parley.emulator.protocol import Broadcast, Inputs, Protocol, check_arrays
from parley.emulator.randomizer import Columns, row_bytes
from parley.emulator.roles.cohort import CohortRole
from parley.emulator.roles.consent import consent_to
from parley.emulator.round import Round, columns_of
from parley.emulator.simulate import conversation, make_cohorts, voice
from parley.emulator.wire.codec import encode
from parley.emulator.wire.messages import Announce, Replies, Result
from parley.launch.testkit.contract.broadcasts import malformed
from parley.launch.testkit.contract.checks import bad, check, good, many
from parley.launch.testkit.contract.exact import setup_for
from parley.launch.testkit.contract.play import CRASHES, Played, flips, play
from parley.launch.testkit.contract.scene import Scene, brief
from parley.launch.testkit.verdicts import Verdict

RUN = "test"
USERS = {"quick": 90, "usual": 240, "thorough": 400}
ALIKE = {"quick": 64, "usual": 128, "thorough": 256}
HOSTILE = {"quick": 12, "usual": 20, "thorough": 40}


def again(protocol: Protocol) -> Protocol:
    """The same protocol, made anew from its description: it remembers nothing."""
    return type(protocol).from_parameters(protocol.parameters())


def same(first: Columns, second: Columns) -> bool:
    return set(first) == set(second) and all(
        first[name].dtype == second[name].dtype and np.array_equal(first[name], second[name]) for name in first
    )


@check("coins serve one purpose")
def check_coins(scene: Scene) -> Verdict:
    """A reply is a function of its value and its coins; coins of one send, of one round, serve nothing else."""
    protocol = scene.case.protocol
    generator, inputs = np.random.default_rng(4), scene.case.inputs(USERS[scene.effort])
    played, _ = play(again(protocol), inputs, generator)
    for each in played:
        number = each.step.number
        fresh = again(protocol).rounds[number - 1]
        mine = inputs[each.users]
        first = fresh.respond(each.public, mine, each.coins, each.users)
        if not same(first, each.replies):
            return bad(f"round {number}: the replies depend on what was drawn in rounds before")
        fresh.respond(each.public, mine[::-1].copy(), flips(fresh.coins, len(mine), generator), each.users)
        if not same(first, fresh.respond(each.public, mine, each.coins, each.users)):
            return bad(f"round {number}: the same coins give other replies the second time")
        if problem := _shared(fresh, each, mine, first, generator):
            return bad(f"round {number}: {problem}")
    return good(f"{many(len(played), 'round')} of {len(inputs)} users: replies follow from value and coins alone")


def _shared(step: Round, played: Played, inputs: Inputs, first: Columns, generator: np.random.Generator) -> str:
    """Other coins for one send must change nothing in the columns of the others, and something in its own."""
    start, public, coins = 0, played.public, played.coins
    for name, send in step.sends(public).items():
        size = send.randomizer.coins
        changed = coins.copy()
        changed[:, start : start + size] = flips(size, len(coins), generator)
        start += size
        replies = step.respond(public, inputs, changed, played.users)
        own = {column for column in replies if column == name or column.startswith(f"{name}.")}
        for column in set(replies) - own:
            if not np.array_equal(replies[column], first[column]):
                return f"{column!r} changes with the coins of {name!r}"
        if size and all(np.array_equal(replies[column], first[column]) for column in own):
            return f"{name!r} is the same whatever its coins are"
    return ""


@check("sharding changes nothing")
def check_sharding(scene: Scene) -> Verdict:
    """However users are spread over nodes and frames, every reply has the same bytes, and so has the result."""
    protocol = scene.case.protocol
    inputs, key = scene.case.inputs(USERS[scene.effort]), key_from_seed(4)
    seen: dict[str, tuple[dict[tuple[int, int], bytes], bytes]] = {}
    for nodes, chunk in ((1, 4096), (3, 16), (2, 7), (len(inputs) // 2, 1)):
        replies, result = dict[tuple[int, int], bytes](), b""
        for _, message in conversation(protocol, inputs, key, nodes=nodes, chunk=chunk):
            if isinstance(message, Replies):
                rows = row_bytes(message.columns, len(message.users))
                for user, row in zip(message.users.tolist(), rows, strict=True):
                    replies[message.round, user] = row.tobytes()
            if isinstance(message, Result):
                result = encode(message)
        seen[f"{nodes} nodes, frames of {chunk}"] = replies, result
    (name, (replies, result)), *others = seen.items()
    for other, (theirs, ended) in others:
        for (number, user), row in replies.items():
            if theirs.get((number, user)) != row:
                return bad(f"user {user} sends other bytes in round {number} with {other} than with {name}")
        if ended != result:
            return bad(f"the estimate with {other} is not that with {name}")
    # And in whatever order they stand in one call.
    generator = np.random.default_rng(5)
    for each in play(protocol, inputs, generator)[0]:
        order = generator.permutation(len(each.users))
        moved = each.step.respond(each.public, inputs[each.users][order], each.coins[order], each.users[order])
        if not same(moved, {name: column[order] for name, column in each.replies.items()}):
            return bad(f"round {each.step.number}: a reply depends on who else is in the same call")
    return good(f"{len(replies)} replies, the same bytes in {len(seen)} ways to spread {len(inputs)} users")


@check("order changes nothing")
def check_tallies(scene: Scene) -> Verdict:
    """Tallies are whole numbers that add up to the same, in whatever order and pieces replies come."""
    protocol = scene.case.protocol
    generator, inputs = np.random.default_rng(6), scene.case.inputs(USERS[scene.effort])
    counted = 0
    for each in play(protocol, inputs, generator)[0]:
        step, count = each.step, len(each.users)
        replies = each.complete
        whole = step.tally(each.public, replies)
        cuts = np.sort(generator.choice(np.arange(1, count), size=min(4, count - 1), replace=False))
        orders = [np.arange(count), generator.permutation(count), np.arange(count)[::-1]]
        for name, total in whole.sums.items():
            counted += 1
            if np.asarray(total).dtype.kind not in "iu":
                return bad(
                    f"the tally {name!r} of round {step.number} is {np.asarray(total).dtype}; tallies "
                    "are integers, because sums of floats depend on their order",
                )
        for order in orders:
            parts = np.split(order, cuts)
            added = None
            for part in parts:
                each_part = step.tally(each.public, {name: column[part] for name, column in replies.items()})
                added = each_part if added is None else added + each_part
            assert added is not None
            for name, total in whole.sums.items():
                if not np.array_equal(added.sums[name], total):
                    return bad(
                        f"the tally {name!r} of round {step.number} depends on the order or the "
                        f"pieces in which {count} replies come",
                    )
        for name, send in step.sends(each.public).items():
            # Shares of a sum modulo a power of two add up to something else than what each decodes to.
            if "" in send.tallies or not math.isfinite(send.randomizer.epsilon):
                continue
            mine = columns_of(name, send, replies)
            decoded = np.asarray(send.randomizer.decode(mine))
            size = float(np.abs(decoded).sum(axis=0).max(initial=0.0)) + 1e-300
            summed = send.randomizer.unit * whole.sums[name] + send.randomizer.offset * count
            if not float(np.max(np.abs(summed - decoded.sum(axis=0)))) <= 1e-9 * size:
                return bad(f"the total of {name!r} in round {step.number} is not the sum of what it decodes")
    return good(f"{many(counted, 'sum')} of whole numbers, the same in every order and in pieces")


def cohort_of(protocol: Protocol, inputs: Inputs, chunk: int = 16) -> CohortRole:
    """A node with these users, who agreed to this protocol."""
    (cohort,) = make_cohorts(protocol, inputs, key_from_seed(7), RUN, 1, chunk)
    assert consent_to(protocol, RUN).run == cohort.run
    return cohort


def answers(cohort: CohortRole, number: int, public: Broadcast) -> list[Replies]:
    """What a node says to a broadcast; RemoteProtocolError where it refuses."""
    announce = Announce(run=RUN, round=number, broadcast=dict(public))
    return [said for _, said in voice(cohort, announce) if isinstance(said, Replies)]


def seated(protocol: Protocol, inputs: Inputs, rounds: int = 0, scene: Scene | None = None) -> CohortRole:
    """A node that has heard the setup and answered so many honest rounds."""
    cohort = cohort_of(protocol, inputs)
    list(cohort.hear(setup_for(protocol, nonce_from_key(key_from_seed(7)))))
    for number in range(1, rounds + 1):
        assert scene is not None
        answers(cohort, number, scene.rounds[number].honest[0])
    return cohort


@check("hostile broadcasts")
def check_hostile(scene: Scene) -> Verdict:
    """Broadcasts that no honest analyst sends are refused, or answered like any other."""
    protocol = scene.case.protocol
    inputs = np.arange(protocol.inputs, dtype=np.int64)
    refused = answered = 0
    for step in protocol.rounds:
        looked, number = scene.rounds[step.number], step.number
        if looked.crashes:
            public, what = looked.crashes[0]
            return bad(f"round {number} fails with {what} instead of refusing", broadcast=brief(public))
        cohort = seated(protocol, inputs, number - 1, scene)
        honest = looked.honest[0]
        refusable: list[tuple[str, int, Any]] = [(what, number, public) for what, public in malformed(step, honest)]
        refusable += [("a round that does not exist", each, honest) for each in (0, len(protocol.rounds) + 1)]
        if number < len(protocol.rounds):
            refusable.append(("a round left out", number + 1, scene.rounds[number + 1].honest[0]))
        for what, told, public in refusable:
            try:
                said = answers(cohort, told, public)
            except RemoteProtocolError:
                refused += 1
                continue
            except CRASHES as error:
                # The wire would not carry it: the announcement itself cannot be made.
                if isinstance(error, ValueError | TypeError) and not said_by_protocol(error):
                    refused += 1
                    continue
                return bad(f"round {number}, {what}: {type(error).__name__} instead of a refusal")
            if said:
                return bad(f"round {number}: a node answers {what}", broadcast=brief(public))
        for public in looked.answered[: HOSTILE[scene.effort]]:
            answered += 1
            try:
                replies = answers(seated(protocol, inputs, number - 1, scene), number, public)
                for each in replies:
                    check_arrays("replies", each.columns, step.reply, len(each.users))
                    if not step.check(public, step.complete(public, each.users, each.columns)).all():
                        return bad(
                            f"round {number}: a reply to a hostile broadcast is not a valid one",
                            broadcast=brief(public),
                        )
            except CRASHES as error:
                return bad(
                    f"round {number}: a node takes a hostile broadcast and then gives no reply: {error!s:.160}",
                    broadcast=brief(public),
                )
        answers(cohort, number, honest)
        for other in looked.answered[:1]:
            try:
                if answers(cohort, number, other) and any(
                    not np.array_equal(other[name], honest[name]) for name in honest
                ):
                    return bad(f"round {number}: a node answers a second, different question")
            except RemoteProtocolError:
                refused += 1
    kept = sum(len(each.answered) for each in scene.rounds.values())
    dropped = sum(each.refused for each in scene.rounds.values())
    return good(
        f"{refused + dropped} are refused; {kept} extreme ones are answered like any other",
        refused=refused + dropped,
        answered=kept,
        played=answered,
    )


def said_by_protocol(error: BaseException) -> bool:
    """Whether an error was raised in the protocol's own code rather than before it was asked."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name in ("check_broadcast", "respond", "sends"):
            return True
        trace = trace.tb_next
    return False


@contextmanager
def overheard() -> Iterator[list[str]]:
    """Everything that is logged, warned or printed inside."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    printed = io.StringIO()
    try:
        with warnings.catch_warnings(record=True) as warned, redirect_stdout(printed), redirect_stderr(printed):
            warnings.simplefilter("always")
            yield lines
        lines += [str(each.message) for each in warned]
        lines += printed.getvalue().splitlines()
    finally:
        logging.getLogger().removeHandler(handler)


def visible(scene: Scene, inputs: Inputs) -> dict[str, list[object]]:
    """All that can be seen of a node with these inputs except the content of its replies, attack by attack."""
    protocol, seen = scene.case.protocol, defaultdict[str, list[object]](list)
    with overheard() as lines:
        for attack, broadcasts in scripts(scene):
            cohort = seated(protocol, inputs)
            for number, public in broadcasts:
                try:
                    for said in cohort.hear(Announce(run=RUN, round=number, broadcast=dict(public))):
                        seen[attack].append(outside_of(said))
                except CRASHES as error:
                    seen[attack].append((type(error).__name__, str(error)))
                    break
        seen["log"] += list(lines)
    seen["log"] += lines[len(seen["log"]) :]
    return dict(seen)


def scripts(scene: Scene) -> Iterator[tuple[str, list[tuple[int, Broadcast]]]]:
    """What a node hears: honest runs, and runs whose last broadcast is extreme."""
    rounds = scene.rounds
    honest = [(number, looked.honest[0]) for number, looked in rounds.items()]
    yield "an honest run", honest
    for number, looked in rounds.items():
        for place, public in enumerate(looked.answered[: HOSTILE[scene.effort]]):
            yield f"round {number}, extreme broadcast {place}", [*honest[: number - 1], (number, public)]


def outside_of(said: Any) -> object:
    """What is seen of a word without the content of its columns."""
    if not isinstance(said, Replies):
        return type(said).__name__
    shapes = tuple((name, str(each.dtype), each.shape) for name, each in sorted(said.columns.items()))
    return "replies", said.round, said.chunk, said.chunks, len(encode(said)), tuple(said.users.tolist()), shapes


@check("same for every input")
def check_visible(scene: Scene) -> Verdict:
    """Number and size of frames, refusals, log lines and failures are the same for every input."""
    inputs = scene.case.protocol.inputs
    users = ALIKE[scene.effort]
    first = visible(scene, np.zeros(users, dtype=np.int64))
    for x in range(1, inputs):
        other = visible(scene, np.full(users, x, dtype=np.int64))
        for attack in first:
            if other.get(attack) != first[attack]:
                return bad(
                    f"in {attack}, a node whose users hold input {x} does not behave as with input 0",
                    with_input_0=_brief(first[attack]),
                    with_this_input=_brief(other.get(attack)),
                )
    frames = sum(isinstance(each, tuple) for listed in first.values() for each in listed)
    crash = next((each for listed in first.values() for each in listed if _is_error(each)), None)
    if crash is not None:
        return bad(f"a node with any input fails: {crash}")
    lines = len(first["log"])
    shown = ", ".join((many(frames, "frame"), many(len(first) - 1, "run"), many(lines, "log line")))
    says = f"{inputs} inputs look alike: {shown}"
    return good(says, frames=frames, runs=len(first) - 1, log_lines=lines)


def _is_error(each: object) -> bool:
    return (
        isinstance(each, tuple)
        and len(each) == 2
        and str(each[0]).endswith("Error")
        and each[0] != (RemoteProtocolError.__name__)
    )


def _brief(seen: list[object] | None) -> str:
    """The end of what was seen, where the difference usually is."""
    return "nothing" if not seen else "; ".join(str(each)[:160] for each in seen[-2:])
