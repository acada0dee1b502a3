"""What relay and shuffler share, standing between user nodes and the board: their flags and their two ports."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.ports import BoardPort, NodePort
from parley.emulator.transport.zmq.ports import connect_node
from parley.nodes import common
from parley.nodes.state.reopen import bind


@dataclass(frozen=True, kw_only=True)
class UserSide:
    """How user nodes reach a relay or shuffler, as it was typed."""

    own_inbox: str
    own_feed: str
    own_addresses: Path | None
    allowed: Path | None


user_side_options = common.collect_options(
    "side",
    UserSide,
    common.endpoint_option("--own-inbox", "Where user nodes send their replies.", formerly="--own-post"),
    common.endpoint_option("--own-feed", "Where they hear broadcasts."),
    common.path_option("--own-addresses", help="Write the endpoints to this file; if it exists, reuse them."),
    common.path_option("--allowed", help="Public keys of the user nodes, by name."),
)


@asynccontextmanager
async def both_ports(
    side: UserSide, link: common.BoardLink, name: str, nodes: int, *, own: bytes = b"", notices: bool = False
) -> AsyncIterator[tuple[BoardPort, NodePort]]:
    """Bind for the user nodes, connect to the board (see `connect_node`), and say where user nodes find us."""
    security = common.board_security(link.keys, side.allowed)
    written = side.own_addresses
    again = written is not None and written.exists()
    wanted = BoardAddresses(inbox=side.own_inbox, feed=side.own_feed, delivery=common.ANY_PORT)
    there = common.read_addresses(written) if written is not None and again else wanted
    with closing(await bind(there, security, again=again, peers=nodes)) as inner:
        port = connect_node(link.board(), link.security(), own=own, notices=notices)
        with closing(link.under(port, name)) as outer:
            if written is not None:
                common.write_addresses(written, inner.addresses)
            yield inner, outer


async def together(*work: Coroutine[None, None, None]) -> None:
    """Do all of it at once; the first error ends the rest."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for each in tasks:
            each.cancel()
