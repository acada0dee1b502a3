"""What protocols of the shuffle model share: what users trust, how replies are mixed, how few of them may be posted."""

from collections.abc import Mapping

from parley.emulator.errors import BadInput
from parley.emulator.roles.mixing import Mixing

PROTECTS = "the analyst and everyone who sees the transcript, if the shuffler keeps to itself who sent what"


def check_mixing(mixing: Mixing, users: int, axes: Mapping[str, int]) -> None:
    """Replies are mixed along these axes, in a crowd that users can form: guarantees are computed for that many."""
    if dict(mixing.axes) != dict(axes):
        raise BadInput(f"this protocol's replies are to be mixed along {dict(axes)}, not {mixing.axes!r:.80}")
    if not 2 <= mixing.crowd <= users:
        raise BadInput(
            f"a crowd of {mixing.crowd} cannot be demanded of {users} users; give a number from 2 to {users}"
        )
