"""`parley wallet`: made whole or not at all, shown while it is in use."""

import json
from pathlib import Path

import numpy as np
import pytest

from parley.emulator.roles.consent import domain_of
from parley.emulator.roles.wallet.entries import View
from parley.emulator.wire.codec import pack
from parley.nodes.state.wallet import StoredWallet
from parley.protocols.baselines.frequency import FrequencyGrr
from parley.protocols.workloads.declared import coarsening
from parley.protocols.workloads.domain import Categories, Interval
from parley.protocols.workloads.gini import GiniDiversity
from tests.launch.conftest import Parley

CONSTANT = ("--users", 4, "--cap", 1, "--constant")


def grr(inputs: int, epsilon: float) -> FrequencyGrr:
    return FrequencyGrr.design(GiniDiversity(levels=inputs), epsilon=epsilon, users=10)


def test_a_wallet_of_claims(parley: Parley) -> None:
    assert parley("wallet", "create", "purse", "--users", 4, "--cap", 2, "--delta-cap", "1e-6").code == 0
    wallet = StoredWallet.open(Path("purse"), users=4)
    for number in range(15):
        assert wallet.accept(f"run-{number}", grr(3, 0.1), view=View()).all()
    # It can be shown while a run uses it.
    said = parley("wallet", "show", "purse", "--json")
    assert said.code == 0, said.err
    assert said.record == {
        "folder": "purse",
        "users": 4,
        "mode": "sum",
        "inputs": None,
        "domain": {},
        "cap": 2.0,
        "delta_cap": 1e-6,
        "runs": 15,
        "spent": {"smallest": 1.5, "median": 1.5, "largest": 1.5},
        "delta_spent": {"smallest": 0.0, "median": 0.0, "largest": 0.0},
        "can_answer": {"epsilon": 0.1, "users": 4},
    }
    assert parley("wallet", "show", "purse", "--json", "--epsilon", 0.6).record["can_answer"]["users"] == 0
    wallet.close()


def test_a_wallet_of_constant_values(parley: Parley) -> None:
    said = parley("wallet", "create", "purse", *CONSTANT, "--column", "age=18:90/4", "--column", "sex=f,m", "--json")
    assert said.code == 0, said.err
    assert said.record["inputs"] == 8
    fine = domain_of(8, [*Interval("age", 18, 90, 4).declared, *Categories("sex", ("f", "m")).declared])
    wallet = StoredWallet.open(Path("purse"), users=4)
    assert pack(dict(wallet.terms.domain)) == pack(dict(fine))
    halves = coarsening(wallet.terms.domain, domain_of(2, Interval("age", 18, 90, 2).declared))
    assert halves is not None
    wallet.accept("halves", grr(2, 0.5), view=View(coarsening=halves))
    mask = wallet.grant("halves", 1, {}, np.array([True, True, True, False]))
    wallet.said("halves", 1, np.flatnonzero(mask), {"category.category": np.zeros(3, np.uint32)})
    wallet.close()
    shown = parley("wallet", "show", "purse")
    assert shown.code == 0, shown.err
    words = " ".join(shown.out.split())
    assert "4 users, 1 runs, counted by what was said about a constant value" in words
    assert "epsilon spent 1 0 0.5 0.5" in words
    assert "can still answer a round of epsilon 0.5: 4 of 4" in words
    record = parley("wallet", "show", "purse", "--json", "--epsilon", 0.75).record
    assert record["can_answer"] == {"epsilon": 0.75, "users": 1}
    assert json.dumps(record["domain"]) == json.dumps(parley("wallet", "show", "purse", "--json").record["domain"])


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--users", 0, "--cap", 1), "0 users"),
        (("--users", 4), "--cap"),
        (("--users", 4, "--cap", 0), "cap 0"),
        (("--users", 4, "--cap", "nan"), "nan"),
        (("--users", 4, "--cap", "inf"), "inf"),
        (("--users", 4, "--cap", 1, "--delta-cap", 1), "delta"),
        (CONSTANT, "--inputs K"),
        ((*CONSTANT, "--inputs", 1), "--inputs 1"),
        ((*CONSTANT, "--inputs", 10**7), "--inputs 10000000"),
        ((*CONSTANT, "--inputs", 4, "--column", "age=18:90/4"), "contradict"),
        ((*CONSTANT, "--column", "age=18:90"), "must look like"),
        ((*CONSTANT, "--column", "age=x:90/4"), "must look like"),
        ((*CONSTANT, "--column", "age=90:18/4"), "low < high"),
        ((*CONSTANT, "--column", "age=18:90/1"), "age cannot have 1 levels"),
        ((*CONSTANT, "--column", "age=18:90/4", "--column", "age=18:90/2"), "age"),
        ((*CONSTANT, "--column", "sex=f,f"), "declared twice"),
    ],
)
def test_bad_input_writes_nothing(parley: Parley, arguments: tuple[object, ...], word: str) -> None:
    said = parley("wallet", "create", "purse", *arguments)
    assert said.code == 2, said
    assert said.out == ""
    assert len(said.err.splitlines()) == 1
    assert word in said.err
    assert list(Path().iterdir()) == []


def test_wallets_that_cannot_be_made_or_shown(parley: Parley) -> None:
    assert parley("wallet", "create", "purse", "--users", 4, "--cap", 1).code == 0
    whole = Path("purse/log").read_bytes()
    for arguments, word in (
        (("create", "purse", "--users", 4, "--cap", 1), "already exists"),
        (("create", "no/where", "--users", 4, "--cap", 1), "cannot be created"),
        (("show", "nowhere"), "cannot be opened"),
        (("show", "purse", "--epsilon", "-1"), "epsilon is -1"),
    ):
        said = parley("wallet", *arguments)
        assert said.code == 2, said
        assert word in said.err
        assert len(said.err.splitlines()) == 1
    Path("purse/log").write_bytes(whole[:-1])
    assert "cut or damaged" in parley("wallet", "show", "purse").err
    assert [each.name for each in Path().iterdir()] == ["purse"]


def test_wallets_carry_over_from_run_to_run(parley: Parley) -> None:
    """Real nodes with wallets: nobody loses more than the cap, whoever is silent is counted, and the audit agrees."""
    made = ("--users", 60, "--processes", 2, "--cap", 1.1, "--constant", "--inputs", 4)
    assert parley("wallet", "create", "purse", *made).code == 0
    asked = ("--statistic", "gini-diversity", "--levels", 4, "--protocol", "frequency-grr", "--epsilon", 0.5)
    silent = 0
    for number in range(4):
        out = Path(f"run-{number}")
        who = (
            "--users",
            60,
            "--processes",
            2,
            "--seed",
            number,
            "--quorum",
            0.05,
            "--wallet",
            "purse",
            "--out",
            out,
            "--name",
            f"r{number}",
        )
        said = parley("run", *asked, *who, "--json", "--quiet")
        assert said.code == 0, said.err
        refused = said.record.get("silent_for_wallets", 0)
        assert said.record["replied"] + refused == 60
        assert ("wallets refused" in said.err) == (refused > 0)
        silent += refused
        audited = parley("audit", out, "--json")
        assert audited.code == 0, audited.out
        assert audited.record["authorship"]["verdict"] == "pass"
        assert (f'"silent":{refused}' in (out / "report.html").read_text().replace(" ", "")) == (refused > 0)
    assert silent > 0
    shown = parley("wallet", "show", "purse", "--json").record
    assert (shown["users"], shown["runs"]) == (60, 4)
    assert shown["spent"]["largest"] <= 1.1


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        (("--users", 60, "--processes", 3), "is not a wallet of the 20 users of node-0"),
        (("--users", 50, "--processes", 2), "is not a wallet of the 25 users of node-0"),
        (("--users", 60, "--processes", 1), "the wallet"),
    ],
)
def test_a_wallet_of_other_users_is_refused_before_anything_starts(
    parley: Parley, changes: tuple[object, ...], word: str
) -> None:
    assert parley("wallet", "create", "purse", "--users", 60, "--processes", 2, "--cap", 2).code == 0
    asked = ("--statistic", "gini-diversity", "--levels", 4, "--protocol", "frequency-grr", "--epsilon", 0.5)
    said = parley("run", *asked, *changes, "--wallet", "purse", "--out", "run")
    assert said.code == 2
    assert len(said.err.splitlines()) == 1
    assert word in said.err
    assert not Path("run").exists()
