"""Where the error comes from: predicted parts add up to the prediction, realised ones to estimate minus truth."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from parley.emulator.coins import key_from_seed
from parley.emulator.record.transcript import TranscriptWriter
from parley.emulator.record.witness import Witness
from parley.emulator.simulate import conversation
from parley.emulator.wire.codec import encode
from parley.launch.report.model import make_model
from parley.protocols.paper.three_round import ThreeRound
from parley.protocols.registry import design
from parley.protocols.workloads import synthetic
from parley.protocols.workloads.choice import make_workload

USERS = 400


def model_of(folder: Path, statistic: str, levels: str, protocol_name: str) -> dict[str, Any]:
    """The model of a run in memory."""
    workload = make_workload(statistic, levels, None)
    names = synthetic.names(workload)
    inputs = synthetic.draw(names[0], workload, USERS, np.random.default_rng(5))
    protocol = design(protocol_name, workload, epsilon=4.0, users=USERS)
    key = key_from_seed(5)
    path = folder / "transcript.parley"
    with TranscriptWriter.create(path, "simulated") as writer:
        for number, (sender, message) in enumerate(conversation(protocol, inputs, key, nodes=2)):
            writer.append(sender, encode(message), number)
        writer.close("completed")
    return make_model(path, witness=Witness(run="simulated", key=key, inputs=inputs))


@pytest.mark.parametrize("protocol", ["three-round", "two-round", "two-round-tuned"])
@pytest.mark.parametrize(("statistic", "levels"), [("kendall", "4x4"), ("auc", "4")])
def test_parts_add_up(tmp_path: Path, statistic: str, levels: str, protocol: str) -> None:
    model = model_of(tmp_path, statistic, levels, protocol)
    answer, budget = model["answer"], model["budget"]
    assert budget["reason"] == ""
    predicted = [row["predicted"] for row in budget["sources"] if row["predicted"] is not None]
    realised = [row["realised"] for row in budget["sources"] if row["realised"] is not None]
    assert len(predicted) >= 2
    assert math.hypot(*predicted) == pytest.approx(answer["predicted_rmse"], rel=1e-9)
    assert sum(realised) == pytest.approx(answer["error"], abs=1e-9)


def test_a_protocol_that_does_not_say(tmp_path: Path) -> None:
    budget = model_of(tmp_path, "kendall", "4x4", "frequency-subset")["budget"]
    assert (budget["sources"], budget["reason"]) == ([], "the protocol does not say where its error comes from")


def test_a_protocol_says_it_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ThreeRound, "error_budget", lambda self: {"noise": 4.0, "nothing": math.nan}, raising=False)
    monkeypatch.setattr(ThreeRound, "realised_errors", lambda self, heard, inputs: {"noise": -1.0}, raising=False)
    budget = model_of(tmp_path, "kendall", "4x4", "three-round")["budget"]
    assert budget["sources"] == [{"source": "noise", "predicted": 2.0, "realised": -1.0}]
