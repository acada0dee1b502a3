"""The form of msgpack bytes from a stranger: one value, its parts in their shortest form, few and not too deep.

Found out by reading heads alone, before anything is built: a few bytes can announce very many values, or nest them
very deep, and a library that believes them pays in memory.
"""

from typing import NamedTuple

from parley.emulator.errors import RemoteProtocolError

MOST_ITEMS = 2**20
DEEPEST = 8
ARRAY = 1


class _Form(NamedTuple):
    """What a msgpack head byte announces: a number of `width` bytes between `least` and `most`, then so many bytes
    (`follows` times the number) or values (`holds` times the number)."""

    width: int = 0
    least: int = 0
    most: int = 2**64
    follows: int = 0
    holds: int = 0


def _forms() -> dict[int, _Form]:
    """Every head byte that may occur. Bounds leave each number and length only its shortest form."""
    forms = {head: _Form() for head in (*range(0x80), *range(0xE0, 0x100), 0xC0, 0xC2, 0xC3)}
    forms |= {0x80 + count: _Form(least=count, holds=2) for count in range(16)}
    forms |= {0x90 + count: _Form(least=count, holds=1) for count in range(16)}
    forms |= {0xA0 + count: _Form(least=count, follows=1) for count in range(32)}
    forms[0xCB] = _Form(least=8, follows=1)
    for step, width in enumerate((1, 2, 4, 8)):
        forms[0xCC + step] = _Form(width, 2 ** (4 * width) if step else 128)
        # Negative numbers: two's complement, below what half the width (or a single byte) can hold.
        half = 2 ** (4 * width - 1) if step else 32
        forms[0xD0 + step] = _Form(width, 2 ** (8 * width - 1), 2 ** (8 * width) - half - 1)
    for step, width in enumerate((1, 2, 4)):
        longer = 2 ** (4 * width)
        forms[0xC4 + step] = _Form(width, longer if step else 0, follows=1)
        forms[0xC7 + step] = _Form(width, longer if step else 0, follows=1)
        forms[0xD9 + step] = _Form(width, longer if step else 32, follows=1)
    for step, width in enumerate((2, 4)):
        forms[0xDC + step] = _Form(width, 2**16 if step else 16, holds=1)
        forms[0xDE + step] = _Form(width, 2**16 if step else 16, holds=2)
    forms |= {0xD4 + step: _Form(least=2**step, follows=1) for step in range(5)}
    return forms


_FORMS = _forms()
_EXTENSIONS = frozenset((*range(0xC7, 0xCA), *range(0xD4, 0xD9)))
_FIXED = frozenset((1, 2, 4, 8, 16))


class CutOff(RemoteProtocolError):
    """Bytes that end before the heads of their values do."""


def extent(body: bytes | memoryview) -> int:
    """Where the value that starts `body` ends, be all its bytes there or not."""
    size, at, items, pending = len(body), 0, 0, [1]
    while pending:
        if not pending[-1]:
            pending.pop()
            continue
        pending[-1] -= 1
        if at >= size:
            raise CutOff(f"{size} bytes that end in the middle of a value")
        head = body[at]
        if head not in _FORMS:
            raise RemoteProtocolError(f"byte {at} is {head:#04x}, which does not start a value")
        width, number, most, follows, holds = _FORMS[head]
        at += 1
        if width:
            least, number = number, int.from_bytes(body[at : at + width], "big")
            at += width
            if at > size:
                raise CutOff(f"{size} bytes that end in the middle of a value")
            if not least <= number <= most or (head == 0xC7 and number in _FIXED):
                raise RemoteProtocolError(f"a number or length before byte {at} is not in its shortest form")
        if holds:
            items += number * holds
            pending.append(number * holds)
            if items > MOST_ITEMS or len(pending) > DEEPEST + 2:
                raise RemoteProtocolError(f"more than {MOST_ITEMS} values in one, or values nested too deeply")
        elif follows:
            if head in _EXTENSIONS:
                if at >= size:
                    raise CutOff(f"{size} bytes that end in the middle of a value")
                if body[at] != ARRAY:
                    raise RemoteProtocolError(f"byte {at} is {body[at]}, not the extension type of an array")
                at += 1
            at += number
    return at
