"""Everything the page shows, as plain data: the story of the record, what the audit says, what the witness knows."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from parley.emulator.audit.report import audit
from parley.emulator.audit.verdict import Verdict
from parley.emulator.errors import ParleyError, TranscriptError
from parley.emulator.protocol import Heard, Protocol
from parley.emulator.record.conversation import KEPT_BYTES, Conversation, tallies
from parley.emulator.record.question import question_in
from parley.emulator.record.records import medium
from parley.emulator.record.shards import read_run
from parley.emulator.record.transcript import TranscriptReader
from parley.emulator.record.witness import Witness
from parley.emulator.wire.messages import Result
from parley.emulator.wire.security import read_trust
from parley.launch.bins import binned_truth
from parley.launch.report.story import Story
from parley.launch.report.words import cut
from parley.launch.results.display.wording import described, shape_of, source_words
from parley.launch.settings import release
from parley.protocols.outline import outline
from parley.protocols.pairwise import Pairwise
from parley.protocols.registry import build

SAMPLE = 2000
SEED = 0
# The checks that need nothing but the transcript; `parley audit` makes the others.
SHOWN = ("integrity", "rounds", "privacy", "result")
# The check that needs the public keys of the run as well; it is shown where they lie beside the record.
KEYS = "trust.toml"
VERSION = 1
MOST_COLUMNS = 12
SOURCES = 12


def tell(story: Story, reader: TranscriptReader) -> tuple[str, str]:
    """Tell the rest of a record to its end or to the first damage: how it ends, and why."""
    try:
        for record in reader.since(story.summary.next):
            story.take(record)
    except TranscriptError as error:
        return "altered", cut(str(error), 500)
    if reader.closing is None:
        heard = f"the file ends at byte {reader.truncated_at}, after {story.summary.next} records"
        return "truncated", f"there is no closing record: {heard}"
    return reader.closing.outcome, cut(reader.closing.reason, 500)


def make_model(
    transcript: Path, *, witness: Witness | None = None, sample: int | None = SAMPLE, story: Story | None = None
) -> dict[str, Any]:
    """The model of a recorded run. Privacy losses are computed for `sample` users at random; None: for all.

    `story`: of this record, as far as somebody has followed it. TranscriptError only if there is no record at all.
    """
    # Whoever wrote the record chose its numbers; those that overflow are judged, not warned of.
    with np.errstate(all="ignore"):
        beside = transcript.with_name(KEYS)
        keys = read_trust(beside) if beside.is_file() else None
        story = story or Story(Conversation(read_run(transcript, keep=KEPT_BYTES), build))
        conversation = story.summary
        assert isinstance(conversation, Conversation)
        reader = conversation.reader
        outcome, reason = tell(story, reader)
        if witness is not None and witness.run != reader.run:
            witness = None
        model = {**_head(reader.run, outcome, reason, reader.header), "medium": medium(reader.header), **story.record()}
        conversation.heard_all()
        whole, protocol = outcome != "altered", conversation.protocol
        heard = conversation if whole else reader
        # Which users are looked at must not change the page from one making to the next.
        verdicts = audit(heard, build, keys=keys, sample=sample, generator=np.random.default_rng(SEED)).verdicts
        shown = (*SHOWN, *(() if keys is None else ("authorship",))) if whole else ("integrity",)
        model["verdicts"] = {
            name: {"verdict": verdicts[name].verdict, "reason": cut(verdicts[name].reason, 500)} for name in shown
        }
        model["loss"] = _loss(verdicts["privacy"]) if whole else None
        model["budget"] = error_budget(conversation, witness) if whole else None
        model["script"] = _script(protocol) if whole else None
        if witness is not None and whole:
            # Only an emulation knows what the users' inputs say the answer is.
            model["emulation"] = True
            model["source"] = [cut(each) for each in source_words(witness.source)]
            model["origin"] = cut(str(witness.source.get("origin", "")))
            if model["answer"] is not None and protocol is not None and isinstance(conversation.ending, Result):
                truth = binned_truth(protocol, witness.inputs, conversation)
                if isinstance(unbinned := witness.source.get("unbinned"), float):
                    model["answer"]["truth_unbinned"] = unbinned
                if truth is not None:
                    model["answer"] |= {"truth": truth, "error": conversation.ending.estimate - truth}
                    model["answer"] |= _limit(protocol, witness)
        return model


def _limit(protocol: Protocol, witness: Witness) -> dict[str, float]:
    """The least error that any protocol could have on these inputs, for users who trust nobody."""
    if not isinstance(protocol, Pairwise) or protocol.claim.trusts != "nobody":
        return {}
    # The solver loads slowly, and most pages of running conversations never need it.
    from parley.protocols.planning.limit import hardest_limit

    shares = protocol.workload.histogram(witness.inputs)
    least = hardest_limit(protocol.workload, [shares], protocol.claim.epsilon, len(witness.inputs))
    return {} if least is None else {"limit": least}


def live_model(run: str, story: Story, latest: int, header: Mapping[str, Any]) -> dict[str, Any]:
    """The model of a run that still goes on: nothing is known yet of its privacy or its truth."""
    unknown: dict[str, Any] = {"verdicts": {}, "loss": None, "budget": None}
    head = _head(run, "running", "", header)
    return {**head, **story.record(latest), **unknown, "script": _script(story.summary.protocol)}


def _head(run: str, outcome: str, reason: str, header: Mapping[str, Any]) -> dict[str, Any]:
    """What the page is called by, and what its record says about the question."""
    question = question_in(header)
    columns = question.get("columns", ())[:MOST_COLUMNS]
    return {
        "version": VERSION,
        "software": release(),
        "run": run,
        "title": cut(question.get("title") or run),
        "columns": [cut(described(each)) for each in columns],
        "shape": cut(shape_of(question["levels"], columns)) if question else "",
        "outcome": outcome,
        "reason": reason,
        "emulation": False,
    }


def _script(protocol: Protocol | None) -> dict[str, Any] | None:
    """The protocol as a state machine, as `parley protocols NAME` shows it: its rounds, and its analyst's steps."""
    if protocol is None:
        return None
    shown = outline(protocol)
    wanted = ("number", "name", "says", "broadcast", "answers", "epsilon", "sends")
    return {
        "rounds": [{name: each[name] for name in wanted} for each in shown["rounds"]],
        "analyst": shown["analyst"],
    }


def _loss(privacy: Verdict) -> dict[str, Any]:
    """The histogram of exact losses; where replies are anonymous, what their number shows; or why there is neither."""
    evidence = privacy.evidence
    if "delta_shown" in evidence:
        crowd = {name: evidence[name] for name in ("claim", "delta", "delta_shown", "users", "local_loss")}
        return {"crowd": crowd, "reason": ""}
    if "histogram" not in evidence or not evidence["users"]:
        return {"reason": cut(privacy.reason or "there are no replies on record", 500)}
    wanted = ("claim", "max_loss", "users", "population", "above_claim")
    return {**{name: evidence[name] for name in wanted}, **evidence["histogram"], "reason": ""}


def error_budget(conversation: Conversation, witness: Witness | None) -> dict[str, Any]:
    """Where the error comes from: sources with predicted standard deviation and realised error, or why there are none.

    A protocol may say so itself, with two methods; for those that come with Parley their planning says so.

    - `error_budget() -> Mapping[str, float]`: source -> variance it is predicted to add to the estimate.
    - `realised_errors(heard, inputs) -> Mapping[str, float]`: source -> signed error it did add, given what the analyst
      heard (each round's broadcast and tally) and the users' inputs. The errors add up to estimate minus truth.
    """
    protocol, ending = conversation.protocol, conversation.ending
    if protocol is None or not isinstance(ending, Result):
        return {"sources": [], "reason": "there is no answer of a known protocol on record"}
    planning, found = getattr(protocol, "planning", None), dict[str, float]()
    try:
        asked, sums = conversation.questions, tallies(conversation, protocol)
        if len(sums) != len(protocol.rounds):
            raise ValueError(f"{len(sums)} of {len(protocol.rounds)} rounds were answered")
        # What the analyst heard of each round.
        heard = tuple(
            Heard(said := asked[each.number].broadcast, each.sends(said), sums[each.number]) for each in protocol.rounds
        )
        if (own := getattr(protocol, "error_budget", None)) is not None:
            expected = _finite(own())
        else:
            expected = _finite(getattr(planning, "error_sources", _nothing)(heard, ending.predicted_rmse) or {})
        if witness is not None:
            realised: Any = getattr(protocol, "realised_errors", getattr(planning, "realised_errors", _nothing))
            found = _finite(realised(heard, witness.inputs) or {})
    except (ParleyError, ArithmeticError, ValueError, KeyError, IndexError) as error:
        return {"sources": [], "reason": cut(f"the error budget cannot be computed: {error}")}
    if not expected:
        return {"sources": [], "reason": "the protocol does not say where its error comes from"}
    rows = [
        {
            "source": cut(name, 64),
            "predicted": math.sqrt(max(0.0, expected[name])) if name in expected else None,
            "realised": found.get(name),
        }
        for name in list(dict.fromkeys([*expected, *found]))[:SOURCES]
    ]
    return {"sources": rows, "reason": ""}


def _nothing(*given: object) -> None:
    """Of a protocol that nobody has worked the sources out for."""


def _finite(values: Mapping[str, float]) -> dict[str, float]:
    return {str(name): float(value) for name, value in values.items() if np.isfinite(value)}
