"""A protocol's parameters, derived from its fields: what a Setup carries, and the protocol that a Setup describes.

A field travels under its own name. Numbers, words, lists of numbers and arrays travel as they are; a workload, a mixing
rule or another protocol travels as a map of its own parameters; None does not travel. What comes from a stranger is
read strictly by the declared types; what a value may be, the class checks when it is made.
"""

import math
import types
from collections.abc import Mapping
from dataclasses import Field, fields
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from parley.emulator.errors import BadInput

Made = TypeVar("Made")
# In a field's metadata: it is not a parameter and never leaves the process.
STAYS_HERE = {"travels": False}
# In a field's metadata: a protocol of one of several kinds, which travels with its name.
NAMED = "kinds by name"


def to_plain(made: Any) -> dict[str, Any]:
    """The fields as plain data."""
    kind: Any = type(made)
    values = {each.name: getattr(made, each.name) for each in _travelling(kind)}
    named = {each.name for each in _travelling(kind) if NAMED in each.metadata}
    return {
        name: {"protocol": value.name, "parameters": value.parameters()} if name in named else _plain(value)
        for name, value in values.items()
        if value is not None
    }


def from_plain(kind: type[Made], parameters: Mapping[str, Any]) -> Made:
    """The object that plain data describe; BadInput for what is missing, unknown or of another type."""
    made: Any = kind
    known = {each.name: each for each in _travelling(made)}
    hints = _hints(made)
    needed = {name for name in known if type(None) not in _alternatives(hints[name])}
    missing, unknown = needed - set(parameters), set(parameters) - set(known)
    if missing or unknown:
        raise BadInput(f"protocol parameters: missing {sorted(missing)}, unknown {sorted(unknown)}")
    return kind(
        **{
            name: _named(name, known[name].metadata[NAMED], value)
            if NAMED in known[name].metadata
            else _read(name, hints[name], value)
            for name, value in parameters.items()
        }
    )


@cache
def _travelling(kind: Any) -> tuple[Field[Any], ...]:
    return tuple(each for each in fields(kind) if each.init and each.metadata.get("travels", True))


_hints = cache(get_type_hints)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value.parameters() if hasattr(value, "parameters") else value


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _read(name: str, hint: Any, value: Any) -> Any:
    """A value of the declared type, to the letter: 1 is not 1.0, and True is not 1."""
    for each in _alternatives(hint):
        if each is type(None):
            continue
        origin = get_origin(each) or each
        if origin is np.ndarray:
            return _array(name, np.dtype(get_args(get_args(each)[1])[0]), value)
        if origin is tuple:
            return _tuple(name, get_args(each), value)
        if hasattr(origin, "from_parameters"):
            if not isinstance(value, Mapping):
                raise BadInput(f"protocol parameter {name} should be a map, got {value!r:.80}")
            return origin.from_parameters(value)
        if type(value) is origin and not (origin is float and not math.isfinite(value)):
            return value
    wanted = " or ".join(getattr(each, "__name__", str(each)) for each in _alternatives(hint))
    raise BadInput(f"protocol parameter {name} should be {wanted}, got {value!r:.80}")


def _named(name: str, kinds: Mapping[str, Any], value: Any) -> Any:
    """A protocol that comes with its name."""
    if not isinstance(value, Mapping) or set(value) != {"protocol", "parameters"}:
        raise BadInput(f"protocol parameter {name} should be a protocol and its parameters, got {value!r:.80}")
    chosen = value["protocol"]
    if type(chosen) is not str or chosen not in kinds or not isinstance(value["parameters"], Mapping):
        raise BadInput(f"protocol parameter {name} should be one of {', '.join(kinds)}, got {chosen!r:.80}")
    return kinds[chosen].from_parameters(value["parameters"])


def _tuple(name: str, kinds: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise BadInput(f"protocol parameter {name} should be a list, got {value!r:.80}")
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return tuple(_read(name, kinds[0], each) for each in value)
    if len(kinds) != len(value):
        raise BadInput(f"protocol parameter {name} should be a list of {len(kinds)}, got {len(value)}")
    return tuple(_read(name, kind, each) for kind, each in zip(kinds, value, strict=True))


def _array(name: str, dtype: np.dtype[Any], value: Any) -> np.ndarray[Any, Any]:
    if not isinstance(value, np.ndarray) or value.dtype != dtype:
        raise BadInput(f"protocol parameter {name} should be an array of {dtype}, got {type(value).__name__}")
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        raise BadInput(f"protocol parameter {name} holds a value that is not finite")
    return value
