"""The shape of the code in numbers, before and after, and the imports between its packages.

    python -m benchmarks.shape 6cd613e HEAD            # a table of both revisions
    python -m benchmarks.shape 6cd613e HEAD --write    # the same, into docs/architecture.md

A revision is taken from git into a temporary folder, so the working tree does not matter. The import graph on the page
is made by `python -m tests.docs.tables --write` from the working tree.

Like for like, only what both revisions can do is compared: folders, files and definitions that serve nothing but a
feature which came in between (`FEATURES`) are counted apart, with the blank lines and comments above a definition and
with the imports and constants that nothing else in its file uses. The lines that such a feature takes inside of older
definitions still count, so the code for the same features is, if anything, shorter than the table says.
"""

import ast
import re
import statistics
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from benchmarks.page import table, write_block

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
LAYERS = ("emulator", "protocols", "nodes", "launch")
# What Parley could not do before its protocols became scripts: folders, files, or definitions in a file.
FEATURES = {
    "`parley test`": ("launch/testkit", "launch/commands/test.py"),
    "runs in virtual time": (
        "emulator/transport/virtual_network.py",
        "emulator/transport/virtual_time.py",
        "emulator/transport/conditions.py::Fault.is_virtual",
        "emulator/transport/conditions.py::Conditions.disks",
        "emulator/transport/conditions.py::Fault._check_places",
        "emulator/transport/conditions.py::Fault.nth",
        "emulator/transport/conditions.py::Fault.step",
        "launch/cluster/layout.py::Layout._check_medium",
        "launch/cluster/layout.py::Layout.in_memory",
        "emulator/transport/conditions.py::POWER",
        "emulator/transport/conditions.py::DISK_KINDS",
        "emulator/transport/memory.py::MemoryTransport._make_inbox",
        "emulator/transport/memory.py::MemoryTransport._make_queue",
        "emulator/transport/ports.py::Clock",
        "emulator/record/records.py::medium",
        "emulator/record/records.py::medium_at",
        "emulator/record/records.py::YEAR_NS",
        "emulator/record/records.py::EPOCH_SECONDS",
        "nodes/state/virtual_disk.py",
        "launch/cluster/in_memory.py",
        "launch/cluster/virtual_run.py",
        "launch/cluster/fault_driver.py::Strike.step",
        "emulator/transport/ports.py::SYSTEM_CLOCK",
        "emulator/transport/ports.py::BoardPort.clock",
        "emulator/transport/ports.py::NodePort.clock",
        "launch/results/answer.py::Answer.virtual",
    ),
    "explicit channels, public coins, replies decoded by their likelihood": (
        "emulator/coins.py::public_words",
        "emulator/coins.py::_neighbours",
        "emulator/randomizer.py::Randomizer.public",
        "emulator/round.py::Round.public",
        "emulator/round.py::Round.complete",
        "protocols/randomizers/channels",
        "protocols/tuned/decoder.py",
        "protocols/tuned/embedding.py",
        "protocols/tuned/objective.py",
        "protocols/tuned/scalar_question.py",
        "protocols/planning/limit.py",
        "protocols/planning/sketches.py",
        "protocols/planning/families/tuned.py::Fraction",
        "protocols/planning/families/tuned.py::normal_draws",
        "protocols/planning/families/tuned.py::draws_of",
        "protocols/planning/families/tuned.py::SecondOrder",
        "protocols/planning/families/tuned.py::CodebookPlanning.second_order",
        "protocols/planning/families/tuned.py::CodebookPlanning.usual_remainder",
        "protocols/planning/families/tuned.py::CodebookPlanning.remainder",
        "protocols/planning/families/tuned.py::worst_error",
        "protocols/planning/families/first_channels.py::decodable",
        "protocols/planning/families/first_channels.py::STRATEGIES",
        "protocols/planning/families/first_channels.py::tabled",
        "protocols/planning/families/first_channels.py::_tables",
        "protocols/tuned/codebook_round.py::CodebookRound.decoder",
        "protocols/tuned/codebook_round.py::CodebookRound.objective",
        "protocols/tuned/codebook_round.py::CodebookRound.strategy",
        "protocols/tuned/codebook_round.py::CodebookRound.places",
        "protocols/tuned/codebook_round.py::CodebookRound._check_table",
        "protocols/tuned/codebook_round.py::_tabled",
        "protocols/tuned/groups.py::places_of",
        "protocols/tuned/two_round_tuned.py::TwoRoundTuned.one_output",
        "launch/report/model.py::_limit",
    ),
    "protocols of one's own, drawn, planned and begun": (
        "protocols/outline.py",
        "protocols/planning/table.py",
        "launch/commands/protocols.py::drawn",
        "launch/commands/protocols.py::TEMPLATE",
        "launch/commands/protocols.py::new_protocol",
        "launch/commands/protocols.py::_wrapped",
        "launch/report/model.py::_script",
        "protocols/planning/plan.py::suitable_names",
        "protocols/planning/planning.py::default_design",
        "protocols/workloads/workload.py::Levels",
        "protocols/workloads/choice.py::make_question",
        "emulator/protocol.py::Heard.estimate",
    ),
    "floods of subscriptions cut off": (
        "emulator/transport/doors.py",
        "emulator/transport/zmq/watching.py::Watch.start",
        "emulator/transport/zmq/watching.py::Watch.door_for",
        "emulator/transport/zmq/watching.py::Watch.hear_reports",
        "emulator/transport/zmq/watching.py::Watch.refusals",
    ),
    "an audit on all cores, each different reply once, a sample without one more reading": (
        "emulator/cores.py",
        "emulator/record/likelihoods.py",
        "emulator/audit/fidelity.py::Law",
        "emulator/audit/privacy.py::Entry",
        "emulator/audit/privacy.py::Ledger._settled",
        "emulator/audit/privacy.py::_likelihoods_of",
        "emulator/audit/privacy.py::_take_singles",
        "emulator/audit/privacy.py::_heard",
        "emulator/audit/privacy.py::_answering_as_heard",
        "emulator/record/summary.py::Form",
        "emulator/record/summary.py::MOST_FORMS",
        "emulator/record/summary.py::form_of",
        "emulator/record/summary.py::RoundSummary.forms",
        "emulator/record/conversation.py::_part",
        "emulator/record/conversation.py::watched",
        "emulator/randomizer.py::Randomizer.log_law",
        "emulator/randomizer.py::Randomizer.cells",
        "emulator/randomizer.py::Randomizer.cell",
        "emulator/randomizer.py::Randomizer.in_cells",
        "protocols/randomizers/exact.py::Choice.cells",
        "protocols/randomizers/exact.py::Choice.cell",
        "protocols/randomizers/exact.py::Choice.in_cells",
        "protocols/randomizers/categories/subset_selection.py::SubsetSelection.log_law",
        "protocols/randomizers/vectors/codebook.py::Codebook.log_law",
        "protocols/randomizers/vectors/codebook.py::Codebook._quickly_among_best",
        "protocols/randomizers/vectors/codebook.py::QUICK_DIMENSION",
        "protocols/randomizers/categories/subset_selection.py::SubsetSelection._holds",
        "protocols/randomizers/vectors/expansion.py::all_short_directions",
    ),
    "plans, audits and replays as Python objects, errors in Python's words": (
        "launch/notebook.py",
        "launch/api.py::_ends",
        "launch/results/display/progress.py::has_viewer",
        "launch/results/display/html.py",
        "launch/results/plans.py::Plan.__len__",
        "launch/results/plans.py::Plan.__getitem__",
        "launch/results/plans.py::Plan.__iter__",
        "launch/results/plans.py::Plan.__str__",
        "launch/results/plans.py::Plan._repr_html_",
    ),
    "data as they are, read in batches": (
        "protocols/workloads/values.py::ABSENT",
        "protocols/workloads/values.py::FALSE",
        "protocols/workloads/values.py::TRUE",
        "protocols/workloads/values.py::SECONDS_A_DAY",
        "protocols/workloads/values.py::is_absent",
        "protocols/workloads/values.py::truth_value",
        "protocols/workloads/values.py::_Reader",
        "protocols/workloads/values.py::moment",
        "protocols/workloads/values.py::_is_number",
        "protocols/workloads/values.py::_is_moment",
        "protocols/workloads/values.py::read_ends",
        "protocols/workloads/choice.py::implied_levels",
        "protocols/workloads/choice.py::levelled_columns",
        "protocols/workloads/choice.py::_named_values",
        "protocols/workloads/choice.py::_with_missing",
        "protocols/workloads/choice.py::Missing",
        "protocols/workloads/choice.py::Ends",
        "protocols/workloads/domain.py::Encoded.missing",
        "emulator/roles/consent.py::Column.dates",
        "protocols/workloads/domain.py::Interval.dates",
        "protocols/workloads/domain.py::Categories.absent",
        "launch/problem.py::ProblemFlags.missing",
        "launch/api.py::Problem.dropped",
        "protocols/workloads/domain.py::_Numbers",
        "launch/data.py::batches_of",
        "launch/data.py::Encoded",
        "launch/data.py::_Unreadable",
        "launch/data.py::file_batches",
        "launch/data.py::_encode_file",
        "launch/data.py::_header",
        "launch/data.py::_plain_series",
        "launch/data.py::_cast",
        "launch/data.py::_filled",
        "launch/data.py::_most_rows",
    ),
    "topics of help, spinners, CSV, what an interval means, lines of 80 columns": (
        "launch/help.py",
        "launch/cli.py::usage",
        "launch/commands/show.py::named_format",
        "launch/results/answer.py::Answer.advice",
        "launch/results/answer.py::Answer.possible",
        "launch/results/answer.py::Answer.command_seconds",
        "launch/settings.py::command_seconds",
        "launch/settings.py::Settings.began",
        "launch/results/display/effort.py",
        "launch/results/meaning.py",
        "launch/results/export.py::write_csv",
        "launch/results/display/progress.py::RateColumn",
        "launch/results/display/progress.py::Working",
        "launch/settings.py::complete",
        "launch/results/display/printable.py::fitted",
    ),
    "bins at private quantiles, and what they hide": (
        "protocols/bins",
        "protocols/planning/families/bins.py",
        "protocols/workloads/declared.py::_between",
        "protocols/workloads/declared.py::_edges",
        "protocols/workloads/choice.py::_ends_of_bins",
        "emulator/roles/consent.py::Column.edges",
        "protocols/workloads/domain.py::Encoded.values",
        "launch/problem.py::ProblemFlags.bins",
        "launch/api.py::Problem.bins",
        "launch/results/plans.py::Plan.bins",
        "launch/results/answer.py::Answer.measured",
        "launch/results/answer.py::Answer.truth_unbinned",
        "launch/results/answer.py::Answer.hidden",
        "launch/results/answer.py::Answer.hidden_error",
        "launch/results/answer.py::Answer.interval95_noise",
        "protocols/workloads/domain.py::Uneven",
        "emulator/protocol.py::Protocol.representatives",
        "emulator/audit/verdict.py::stand_ins",
        "emulator/round.py::Through",
        "launch/bins.py",
        "launch/ranks.py",
        "launch/api.py::Problem.unbinned",
        "launch/api.py::asked_for",
        "launch/results/hiding.py",
        "launch/results/plans.py::Plan.cells",
        "launch/results/plans.py::_binned_plan",
    ),
    "several boards in one run": (
        "emulator/audit/shards",
        "emulator/audit/integrity.py::kind_of_board",
        "emulator/record/shards.py",
        "emulator/roles/shards",
        "emulator/roles/cohort.py::CohortRole._make_ties",
        "emulator/roles/cohort.py::CohortRole._frames_of",
        "emulator/roles/cohort.py::CohortRole._tied",
        "emulator/roles/consent.py::Consent.head",
        "emulator/roles/consent.py::Consent.shard",
        "nodes/board.py::_of_shard",
        "launch/cluster/layout.py::Layout.shards",
        "emulator/record/transcript.py::TranscriptReader.unfinished",
        "emulator/roles/analyst.py::AnalystRole._add",
        "emulator/wire/messages.py::Shard",
        "emulator/wire/messages.py::Tally",
        "emulator/wire/messages.py::Tie",
        "nodes/sub_analyst.py",
        "launch/cluster/worker_processes.py",
        "launch/processes/dependent_node.py",
        "launch/cluster/layout.py::Layout._check_shards",
        "launch/cluster/layout.py::Layout.shard_names",
        "launch/cluster/layout.py::Layout.shard_of",
        "launch/cluster/layout.py::Layout.shard_terms",
        "launch/processes/command_lines.py::CommandLines.between_boards",
        "launch/processes/command_lines.py::CommandLines.shard_boards",
        "launch/processes/command_lines.py::CommandLines.sub_analysts",
        "launch/results/folder.py::RunFolder.shard_transcript",
        "launch/results/against.py::_parts",
        "launch/results/against.py::_findings_of_any_board",
        "emulator/roles/seats.py::Seat.present",
        "emulator/roles/node_memory.py::Answered.whole_size",
        "emulator/roles/node_memory.py::Answered.whole_root",
        "emulator/round.py::Round.could_be",
        "emulator/round.py::_kinds",
        "emulator/randomizer.py::Randomizer.reach",
        "protocols/randomizers/categories/levelled.py::LevelledSelection.reach",
        "protocols/randomizers/categories/oracle.py::FrequencyOracle.reach",
        "protocols/randomizers/scalars/grid_laplace.py::GridLaplace.reach",
        "protocols/randomizers/scalars/one_bit.py::OneBit.reach",
        "protocols/randomizers/vectors/directional.py::Directional.reach",
        "nodes/board.py::SHARDS_FAREWELL_SECONDS",
    ),
    "small frames judged, recorded and counted at once": (
        "emulator/record/merkle.py::Tree.extend",
        "emulator/record/records.py::batch_payload",
        "emulator/record/records.py::leaves_of",
        "emulator/record/records.py::records_of",
        "emulator/record/transcript.py::TranscriptWriter.append_batch",
        "emulator/wire/codec.py::_read_small",
        "emulator/wire/codec.py::_Arrays",
        "emulator/wire/codec.py::_read_small_map",
        "emulator/wire/codec.py::_SMALL",
        "emulator/wire/codec.py::_is_shallow",
        "emulator/wire/codec.py::_read_bundle",
        "emulator/roles/analyst.py::AnalystRole.hear_all",
        "emulator/roles/board.py::BoardRole.asks_for",
        "emulator/roles/board.py::BoardRole.is_complete",
        "emulator/roles/board.py::BoardRole.hear_all",
        "emulator/roles/relay.py::RelayRole.hear_replies",
        "emulator/roles/seats.py::Chunk.read_all",
        "emulator/wire/batches.py",
        "emulator/wire/shapes.py",
        "nodes/analyst.py::RecordFollower._hear_all",
        "nodes/analyst.py::RecordFollower._hear_alike",
        "nodes/analyst.py::AnalystNode._hear_alike",
        "nodes/board.py::BoardNode.take_all",
        "nodes/state/announcer.py::Announcer._put_all",
        "nodes/bulk.py::FEWEST",
        "nodes/bulk.py::Judged",
        "nodes/bulk.py::stretches",
        "nodes/bulk.py::_is_message",
        "nodes/bulk.py::judge",
        "nodes/state/receipts.py::Receipts.note_chunks",
    ),
    "a hundred million users: sets of users as pages of bits": (
        "emulator/record/user_sets.py::PAGE",
        "emulator/record/user_sets.py::MANY_RUNS",
        "emulator/record/user_sets.py::UserSet._mark",
        "emulator/record/user_sets.py::UserSet._add_by_page",
        "emulator/record/user_sets.py::UserSet._move_to_pages",
        "emulator/record/user_sets.py::UserSet.shared_with",
        "emulator/record/user_sets.py::UserSet._is_page",
        "emulator/record/user_sets.py::UserSet._on_page",
        "emulator/record/user_sets.py::UserSet._pieces",
        "emulator/record/user_sets.py::_by_page",
        "emulator/record/user_sets.py::_overlaps",
        "emulator/wire/canonical.py::_users_of_bits",
        "emulator/wire/canonical.py::_bits_of_users",
        "emulator/wire/codec.py::packed_parts",
        "emulator/record/summary.py::Summary._replied_once",
        "emulator/record/user_sets.py::UserSet.holds_range",
        "emulator/record/user_sets.py::UserSet.marks",
        "emulator/roles/replies.py::chunk_for",
        "protocols/randomizers/exact.py::Thresholds",
        "protocols/randomizers/exact.py::WORTH_A_TABLE",
        "protocols/randomizers/exact.py::MOST_RANKS",
        "emulator/round.py::_rows",
        "protocols/randomizers/exact.py::TwoLevel._thresholds",
        "protocols/workloads/workload.py::count_inputs",
        "protocols/tuned/groups.py::_page_of_groups",
        "protocols/tuned/groups.py::MOST_PAGES",
        "launch/processes/system.py::keep_freed_memory",
    ),
    "users or epsilon for a target, and what a plan means": (
        "protocols/planning/target.py",
        "launch/commands/plan.py::Target",
        "launch/commands/plan.py::show_several",
        "launch/results/plans.py::Plan.recommended",
        "launch/results/plans.py::Plan.notes",
        "launch/results/plans.py::worst_of",
        "launch/results/plans.py::epsilon_means",
        "launch/results/plans.py::Plan.title",
        "launch/results/plans.py::Plan.assumed",
        "protocols/planning/planning.py::assumed_histograms",
        "protocols/workloads/gini.py::GiniDiversity.guesses",
        "launch/settings.py::list_of",
    ),
    "sweeps that draw rare events exactly": (
        "protocols/planning/fast_simulation.py::_subsets",
        "protocols/planning/fast_simulation.py::_distinct",
        "protocols/planning/fast_simulation.py::_from_replies",
        "protocols/planning/fast_simulation.py::FEW_REPLIES",
        "protocols/planning/fast_simulation.py::FEW_EVENTS",
    ),
    "the influence of one crafted reply": (
        "protocols/planning/influence.py",
        "launch/commands/plan.py::influences",
        "launch/commands/plan.py::show_influence",
        "launch/commands/plan.py::add_influences",
    ),
    "the lower bound's hard data, and a bound proven with its constants": (
        "protocols/factorization/hard_distributions.py",
        "protocols/planning/lower_bounds.py::HardPair",
        "protocols/planning/lower_bounds.py::contraction",
        "protocols/planning/lower_bounds.py::two_point_bound",
        "protocols/planning/lower_bounds.py::hard_pairs",
        "protocols/planning/lower_bounds.py::users_for_separation",
        "protocols/planning/lower_bounds.py::_mixtures",
        "protocols/planning/lower_bounds.py::_affinity",
        "protocols/planning/lower_bounds.py::_sampling",
        "protocols/planning/lower_bounds.py::_least",
        "protocols/planning/lower_bounds.py::_labelled_pair",
        "protocols/workloads/synthetic.py::_hard",
    ),
    "the question in the record, in words": (
        "emulator/record/question.py",
        "launch/api.py::Problem.described",
        "launch/api.py::Problem.source",
        "launch/api.py::describe",
        "launch/problem.py::described",
        "launch/problem.py::ProblemFlags.title",
        "launch/api.py::Problem.title",
        "launch/api.py::Problem.origin",
        "launch/results/answer.py::Answer.title",
        "launch/results/answer.py::Answer.question",
        "launch/results/answer.py::Answer.source",
        "launch/cluster/layout.py::Layout.question",
        "launch/cluster/layout.py::Layout.source",
        "emulator/record/witness.py::Witness.source",
        "launch/results/display/wording.py",
    ),
    "inputs for a node started by hand, a demo that compares, a page that opens": (
        "protocols/workloads/domain.py::domain_from",
        "launch/commands/hosts.py::inputs",
        "nodes/analyst.py::told",
        "launch/commands/plan.py::write_best",
        "launch/commands/plan.py::check_new",
        "launch/demo.py",
        "launch/results/reporting.py::show_in_browser",
    ),
    "smaller errors: best shifts, a cheaper matrix nearby, answers pulled to the middle, clipping foreseen": (
        "protocols/factorization/closed_forms.py::Helmert",
        "protocols/factorization/factors.py::approximations",
        "protocols/factorization/factors.py::scaled",
        "protocols/factorization/shift.py::with_best_shift",
        "protocols/factorization/zeta.py::approximation_is_useless",
        "protocols/paper/linear_queries.py::MatrixMechanism.shrunk",
        "protocols/planning/families/linear_queries.py::MatrixMechanismPlanning._ranges",
        "protocols/planning/families/linear_queries.py::MatrixMechanismPlanning._biases",
        "protocols/planning/families/linear_queries.py::MatrixMechanismPlanning.weights",
        "protocols/planning/families/linear_queries.py::MatrixMechanismPlanning.answer_errors",
        "protocols/planning/families/paper.py::ThreeRoundPlanning._unclipped_loss",
        "protocols/planning/families/paper.py::excess_variance",
    ),
    "intervals that hold with few users, estimates that tell less than the middle does pulled there": (
        "protocols/baselines/frequency.py::Frequency.cautious",
        "protocols/paper/two_round.py::TwoRound.cautious",
        "protocols/baselines/hierarchical.py::Hierarchical.cautious",
        "protocols/baselines/quantise.py::Quantise.cautious",
        "protocols/planning/families/baselines.py::BaselinePlanning.estimate",
        "protocols/planning/families/baselines.py::BaselinePlanning.curved",
        "protocols/planning/families/baselines.py::FrequencyPlanning.curved",
        "protocols/planning/families/paper.py::TwoRoundPlanning.design",
        "protocols/planning/families/paper.py::CAUTION",
        "protocols/planning/families/tuned.py::shrunk",
        "protocols/planning/families/baselines.py::HierarchicalPlanning.curved",
        "protocols/planning/families/paper.py::TwoRoundBlackBoxPlanning.estimate",
        "protocols/planning/families/paper.py::LEAST_KEPT",
    ),
    "a second question that is chosen by what the first answers show": (
        "protocols/planning/families/tuned.py::TwoRoundTunedPlanning.is_better_again",
        "protocols/planning/families/tuned.py::least_index_error",
        "protocols/planning/families/tuned.py::seen_second_order",
        "protocols/planning/families/tuned.py::TABLE_FOLDS",
        "protocols/tuned/two_round_tuned.py::_one_place",
    ),
    "runs whose sums could overflow, refused": ("protocols/limits.py::check_sums",),
    "iterations that say when they stop short": ("protocols/convergence.py",),
    "a seat that is held by the node's own key": (
        "emulator/roles/board.py::BoardRole.seating",
        "emulator/roles/consent.py::Consent.wants_seating",
        "emulator/roles/node_memory.py::OwnSeat",
        "emulator/roles/cohort.py::CohortRole._told",
        "emulator/roles/board.py::BoardRole.shows",
        "emulator/roles/shuffler.py::ShufflerRole._inquired",
        "emulator/roles/shuffler.py::ShufflerRole._seating",
        "emulator/wire/messages.py::Seating",
    ),
    "frames that claim more users than they have bytes, refused": (
        "emulator/wire/codec.py::_USERS",
        "emulator/wire/codec.py::_check_room",
    ),
    "protocols that take more than they claim, refused at the start": (
        "emulator/protocol.py::spent",
        "emulator/protocol.py::check_claim",
    ),
    "as many inputs in other columns than those agreed to, refused": (
        "emulator/protocol.py::Protocol.column_levels",
        "emulator/roles/consent.py::Consent.check_columns",
        "emulator/roles/consent.py::column_levels",
        "emulator/roles/consent.py::_by",
        "protocols/pairwise.py::Pairwise.column_levels",
    ),
    "a node that begins again with other inputs, refused": (
        "emulator/roles/cohort.py::CohortRole._check_inputs",
        "emulator/roles/node_memory.py::Answered.inputs",
        "emulator/roles/replies.py::Speakers.mark",
    ),
    "a solver's choice, recorded once and taken from the record": (
        "emulator/protocol.py::Chosen",
        "emulator/roles/analyst.py::AnalystRole.expected",
    ),
    "names of before: flags that were renamed, and records of format 1 whose protocol was": (
        "nodes/common.py::RenamedOption",
        "emulator/record/conversation.py::Conversation.heard_all",
    ),
}
# In a fresh process of that revision: what a user's node has loaded once it has built three-round from a setup.
SETUP = """
import sys
from {prefix}protocols.registry import design
from {prefix}protocols.workloads.kendall import Kendall
from {codec} import pack
protocol = design("three-round", Kendall(levels=(8, 8)), epsilon=4.0, users=100)
open(sys.argv[1], "wb").write(pack(protocol.parameters()))
"""
NODE = """
import sys
import {prefix}nodes.user as node
from {codec} import unpack
node.build("three-round", unpack(open(sys.argv[1], "rb").read()))
ours = [name for name in sys.modules if name.split(".")[0] in ("parley", "emulator", "protocols", "nodes", "launch")]
holding = [name for name in ours if not hasattr(sys.modules[name], "__path__") or name == "parley"]
print(len(holding), len(ours))
"""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What one revision looks like."""

    files: int
    lines: int
    features: Mapping[str, int]
    modules: int
    with_packages: int
    median: float
    p90: int
    edges: float


def shape_of(tree: Path) -> Shape:
    """Count everything in a tree of sources."""
    files = sources(tree)
    lengths = sorted(length for path in files for length in function_lengths(path))
    modules, with_packages = loaded_by_a_node(tree)
    return Shape(
        files=len(files),
        lines=sum(map(lines_of, files)),
        features=lines_of_features(tree),
        modules=modules,
        with_packages=with_packages,
        median=statistics.median(lengths),
        p90=lengths[int(0.9 * len(lengths))],
        edges=sum(len(imported(tree, path)) for path in files) / len(files),
    )


def sources(tree: Path) -> list[Path]:
    """The files of the product."""
    return [path for layer in LAYERS for path in sorted((tree / layer).rglob("*.py"))]


def lines_of(path: Path) -> int:
    """The lines of a file, blank ones and comments with them."""
    return len(path.read_text().splitlines())


def lines_of_features(tree: Path) -> Counter[str]:
    """The lines that each feature takes in a tree of sources: folders, files, and definitions with what they need."""
    found: Counter[str] = Counter()
    listed: dict[Path, dict[str, str]] = {}
    for feature, places in FEATURES.items():
        for place in places:
            file, _, name = place.partition("::")
            if name:
                listed.setdefault(tree / file, {})[name] = feature
            else:
                found[feature] += sum(lines_of(path) for path in sources(tree) if path.is_relative_to(tree / file))
    shared = set().union(*(mentioned(path) for path in sources(tree)))
    for path, names in listed.items():
        if path.is_file():
            found.update(owners(ast.parse(path.read_text()), names, shared).values())
    return found


def mentioned(path: Path) -> set[str]:
    """The names that a file takes from others."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    imported = {alias.name for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    return imported | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def owners(module: ast.Module, features: Mapping[str, str], shared: Set[str]) -> dict[int, str]:
    """The lines of a file that serve a feature alone: the listed definitions, each with the blank lines and comments
    above it, and the imports and constants that nothing else uses. `shared`: names that other files may use."""
    found: dict[int, str] = {}
    for name, lines in definitions(module).items():
        if name in features:
            found.update(dict.fromkeys(lines, features[name]))
    uses: dict[str, list[int]] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            uses.setdefault(node.id, []).append(node.lineno)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            for word in re.findall(r"\w+", node.value):
                uses.setdefault(word, []).append(node.lineno)
    end = 0
    for node in module.body:
        start, end = end + 1, node.end_lineno or node.lineno
        bound = _bound(node)
        at = [found.get(line) for name in bound for line in uses.get(name, [])]
        if at and None not in at and (isinstance(node, ast.Import | ast.ImportFrom) or not shared & set(bound)):
            found.update(dict.fromkeys(range(start, end + 1), str(at[0])))
    return found


def _bound(node: ast.stmt) -> list[str]:
    """The names that an import or the definition of a constant makes known in its file."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.split(".")[0] for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [each.id for each in targets if isinstance(each, ast.Name)]


def definitions(tree: ast.Module | ast.ClassDef, within: str = "") -> dict[str, range]:
    """The lines of each function, class, method and constant, with what stands between it and the one before."""
    found: dict[str, range] = {}
    end = tree.lineno if isinstance(tree, ast.ClassDef) else 0
    for node in tree.body:
        start, end = end + 1, node.end_lineno or node.lineno
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[within + node.name] = range(start, end + 1)
        if isinstance(node, ast.ClassDef):
            found |= definitions(node, f"{within}{node.name}.")
        found |= {within + name: range(start, end + 1) for name in _bound(node)}
    return found


def function_lengths(path: Path) -> Iterator[int]:
    """Lines of every function, its signature and docstring with it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1


def imported(tree: Path, path: Path) -> set[Path]:
    """The files of ours that a file imports, wherever in the file."""
    found: set[Path] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {each for alias in node.names if (each := _file(tree, alias.name)) is not None}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = [_file(tree, f"{node.module}.{alias.name}") for alias in node.names]
            found |= {each for each in (*inner, _file(tree, node.module)) if each is not None}
    return found - {path}


def _file(tree: Path, module: str) -> Path | None:
    """The file of a module of ours that holds code; None for others, and for packages."""
    path = (tree / module.removeprefix("parley.").replace(".", "/")).with_suffix(".py")
    return path if path.is_file() and path.relative_to(tree).parts[0] in LAYERS else None


def package_of(tree: Path, path: Path) -> str:
    """The folder a file is in, as far as two levels down."""
    return "/".join(path.relative_to(tree).parent.parts[:2])


def graph() -> str:
    """Which package imports from which, as a table; imports inside functions count too."""
    edges: dict[str, set[str]] = {}
    for path in sources(ROOT):
        own = package_of(ROOT, path)
        edges.setdefault(own, set()).update(package_of(ROOT, each) for each in imported(ROOT, path))
    lines = ["| package | imports from |", "|---|---|"]
    for own, others in edges.items():
        wanted = sorted(others - {own}, key=lambda each: (LAYERS.index(each.split("/")[0]), each))
        lines.append(f"| `{own}` | {', '.join(f'`{each}`' for each in wanted) or 'nothing of ours'} |")
    return "\n".join(lines)


def loaded_by_a_node(tree: Path) -> tuple[int, int]:
    """Modules that hold code, and all of them."""
    prefix = "parley." if (tree / "parley" / "emulator").exists() else ""
    codec = next((tree / "emulator").rglob("codec.py")).relative_to(tree).with_suffix("")
    names = {"prefix": prefix, "codec": prefix + ".".join(codec.parts)}
    with TemporaryDirectory() as folder:
        setup = str(Path(folder) / "setup")
        said = [
            subprocess.run(
                [sys.executable, "-c", program.format(**names), setup],
                cwd=tree,
                env={"PYTHONPATH": str(tree), "OPENBLAS_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for program in (SETUP, NODE)
        ]
    holding, every = map(int, said[1].split())
    return holding, every


def at(revision: str) -> Shape:
    """The shape of a revision."""
    packed = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=True).stdout
    with TemporaryDirectory() as folder, tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="tar")
        return shape_of(Path(folder))


def compared(before: Shape, after: Shape) -> str:
    """Both side by side. What the earlier one had already is no feature that came in between."""
    new = [name for name in FEATURES if not before.features[name] and after.features[name]]
    same = after.lines - sum(after.features[name] for name in new)
    rows: list[Sequence[object]] = [
        ("files", before.files, after.files),
        ("lines", before.lines, after.lines),
        *((f"of these, for {name}", "", after.features[name]) for name in new),
        ("lines for what both can do", before.lines, f"{same:,} ({same / before.lines - 1:+.1%})"),
        ("modules that a user node loads for three-round", before.modules, after.modules),
        ("the same with packages that hold no code", before.with_packages, after.with_packages),
        ("lines of a function, median", before.median, after.median),
        ("lines of a function, 90th percentile", before.p90, after.p90),
        ("imports of ours per file", before.edges, after.edges),
    ]
    return table(["in `emulator protocols nodes launch`", "before", "after"], rows)


@click.command()
@click.argument("before")
@click.argument("after")
@click.option("--write", is_flag=True, help="Put the table into docs/architecture.md.")
def main(before: str, after: str, write: bool) -> None:
    """Compare the shapes of two revisions."""
    made = compared(at(before), at(after))
    click.echo(made)
    if write:
        write_block("shape", made, PAGE)


if __name__ == "__main__":
    main()
