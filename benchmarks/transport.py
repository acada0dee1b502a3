"""Frames a second through the ports against a bare pyzmq PUSH/PULL loop: same frames, same machine, same run.

    python -m benchmarks.transport [--repeat 3] [--scale 1.0] [--json]

The sender is a process of its own. Time runs from the first frame received to the last. `ports` are a user node's
port and the board's; `curve` are the same with keys. The first of each kind is alternated, and medians are compared.
"""

import argparse
import asyncio
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import zmq

from parley.emulator.transport.addresses import BoardAddresses
from parley.emulator.transport.zmq.ports import connect_node, open_board
from parley.emulator.transport.zmq.sockets import make_keys
from parley.emulator.wire.security import Security

FRAMES = {16: 400_000, 64: 400_000, 4096: 150_000, 65536: 20_000}
SPAWN = multiprocessing.get_context("spawn")


def send_bare(address: str, size: int, count: int) -> None:
    """The loop anybody would write."""
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.connect(address)
        frame = bytes(size)
        for _ in range(count):
            socket.send(frame)


def receive_bare(size: int, count: int) -> float:
    """Seconds for `count` frames through a bare loop."""
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        sender = SPAWN.Process(target=send_bare, args=(f"tcp://127.0.0.1:{port}", size, count))
        sender.start()
        socket.recv()
        start = time.perf_counter()
        for _ in range(count - 1):
            socket.recv()
        seconds = time.perf_counter() - start
        sender.join()
    return seconds


def send_port(addresses: BoardAddresses, security: Security | None, size: int, count: int, done: Connection) -> None:
    """The same from a user node's port."""

    async def work() -> None:
        port = connect_node(addresses, security)
        frame = bytes(size)
        for _ in range(count):
            await port.send(frame)
        await asyncio.to_thread(done.recv)
        port.close()

    asyncio.run(work())


def receive_port(size: int, count: int, secure: bool) -> float:
    """Seconds for `count` frames to the board's port."""
    board_keys, node_keys = make_keys(), make_keys()
    ours = Security(keys=board_keys, allowed={node_keys.public: "node"}) if secure else None
    theirs = Security(keys=node_keys, server=board_keys.public) if secure else None

    async def work() -> float:
        board = open_board(BoardAddresses.on(), ours)
        here, there = SPAWN.Pipe()
        sender = SPAWN.Process(target=send_port, args=(board.addresses, theirs, size, count, there))
        sender.start()
        received = len(await board.receive(60))
        start, first = time.perf_counter(), received
        while received < count:
            received += len(await board.receive(60))
        seconds = (time.perf_counter() - start) * count / (count - first)
        here.send(None)
        await asyncio.to_thread(sender.join)
        board.close()
        return seconds

    return asyncio.run(work())


def measure(size: int, count: int, repeat: int) -> dict[str, float]:
    """Median frames a second of each way."""
    ways: dict[str, Callable[[], float]] = {
        "bare": lambda: receive_bare(size, count),
        "ports": lambda: receive_port(size, count, secure=False),
        "curve": lambda: receive_port(size, count, secure=True),
    }
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(repeat):
        order = list(ways) if turn % 2 == 0 else list(reversed(ways))
        for way in order:
            rates[way].append(count / ways[way]())
    return {way: statistics.median(each) for way, each in rates.items()}


def main() -> None:
    """Print a table, or records with --json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3, help="runs of each; the median counts")
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the number of frames")
    parser.add_argument("--json", action="store_true", help="print records instead of a table")
    options = parser.parse_args()
    records = []
    for size, frames in FRAMES.items():
        count = max(1000, int(frames * options.scale))
        rates = measure(size, count, options.repeat)
        ratios = {f"{way}_to_bare": rates[way] / rates["bare"] for way in ("ports", "curve")}
        records.append({"bytes": size, "frames": count, **rates, **ratios})
    if options.json:
        print(json.dumps(records))
        return
    print(f"{'bytes':>7} {'bare/s':>10} {'ports/s':>10} {'curve/s':>10} {'ports:bare':>11} {'curve:bare':>11}")
    for each in records:
        print(
            f"{each['bytes']:>7} {each['bare']:>10,.0f} {each['ports']:>10,.0f} {each['curve']:>10,.0f} "
            f"{each['ports_to_bare']:>11.2f} {each['curve_to_bare']:>11.2f}"
        )


if __name__ == "__main__":
    main()
