"""When one declared domain (`consent.domain_of`) is a coarsening of another: what a wallet must know."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from parley.emulator.randomizer import Floats, Integers
from parley.emulator.roles.wallet.entries import View
from parley.emulator.wire.codec import pack
from parley.protocols.workloads.domain import Interval


def view_of(wallet: Mapping[str, Any], run: Mapping[str, Any]) -> View:
    """What a run over one domain is to a wallet about another: the same, a coarsening, or something else."""
    if pack(dict(wallet)) == pack(dict(run)):
        return View()
    found = coarsening(wallet, run)
    return View(domain=dict(run)) if found is None else View(coarsening=found)


def coarsening(fine: Mapping[str, Any], coarse: Mapping[str, Any]) -> Integers | None:
    """For each input of the fine domain the input of the coarse one; None where it does not follow from it.

    It follows where each coarse column is one of the fine columns with the same range and with bins that are made
    of whole fine bins, edges equal to the last bit. Fine columns may be left out.
    """
    columns = {each["name"]: each for each in fine.get("columns", ())}
    if not columns or not coarse.get("columns"):
        return None
    sizes = [each["levels"] for each in columns.values()]
    places = dict(zip(columns, np.indices(sizes).reshape(len(sizes), -1), strict=True))
    index = np.zeros(int(np.prod(sizes)), np.int64)
    for column in coarse["columns"]:
        own = _map(columns.get(column["name"]), column)
        if own is None:
            return None
        index = index * int(column["levels"]) + own[places[column["name"]]]
    return index


def _map(fine: Mapping[str, Any] | None, coarse: Mapping[str, Any]) -> Integers | None:
    """Fine bin or category -> coarse one."""
    if fine is None or fine["type"] != coarse["type"]:
        return None
    ratio, rest = divmod(int(fine["levels"]), int(coarse["levels"]))
    if fine["type"] == "categories":
        return np.arange(fine["levels"]) if dict(fine) == dict(coarse) else None
    if "edges" in fine or "edges" in coarse:
        return _between(*(_edges(each) for each in (fine, coarse)))
    if rest:
        return None
    edges = [_edges(each) for each in (fine, coarse)]
    # A value beside an edge that is not quite the same would be counted in the wrong bin.
    return np.arange(fine["levels"]) // ratio if np.array_equal(edges[0][::ratio], edges[1]) else None


def _edges(column: Mapping[str, Any]) -> Floats:
    if "edges" in column:
        return np.array(column["edges"], dtype=np.float64)
    return Interval(column["name"], column["low"], column["high"], int(column["levels"])).edges


def _between(fine: Floats, coarse: Floats) -> Integers | None:
    """Fine bin -> coarse bin, where every coarse edge is a fine one to the last bit."""
    if not np.isin(coarse, fine).all() or (fine[0], fine[-1]) != (coarse[0], coarse[-1]):
        return None
    return np.asarray(np.searchsorted(coarse, fine[:-1], side="right") - 1, dtype=np.int64)
