"""MPyC: m parties as processes, a few rounds, in each of them the sum of everybody's vector becomes known to all.

    python mpyc_sums.py open|shared ENTRIES ROUNDS -M PARTIES [options of MPyC]

`open`: vectors are sent as they are. `shared`: they are secret-shared, and only the sum is opened. A party's vector
holds its number, so the right sum is known. The first party prints {"rounds", "messages", "total"}.
"""

import json
import sys
import time

import numpy as np
from mpyc.asyncoro import MessageExchanger
from mpyc.runtime import mpc

HOW, ENTRIES, ROUNDS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
BITS = 64
sent = 0


def counted(send):
    """The same, and counts what is sent."""

    def sending(link: MessageExchanger, counter: int, payload: bytes) -> None:
        global sent
        sent += 1
        send(link, counter, payload)

    return sending


async def open_sum(mine: np.ndarray) -> np.ndarray:
    return sum(await mpc.transfer(mine))


async def shared_sum(mine: np.ndarray) -> np.ndarray:
    first, *others = mpc.input(mpc.SecFxp(BITS).array(mine))
    for each in others:
        first = first + each
    return np.array(await mpc.output(first))


async def main() -> None:
    await mpc.start()
    add = {"open": open_sum, "shared": shared_sum}[HOW]
    began, before, total = time.perf_counter(), sent, np.zeros(ENTRIES)
    for _ in range(ROUNDS):
        total = await add(np.full(len(total), mpc.pid + 1.0))
    seconds, mine = time.perf_counter() - began, sent - before
    messages = sum(await mpc.transfer(mine))
    if mpc.pid == 0:
        print(json.dumps({"rounds": seconds, "messages": messages, "total": float(total[-1])}), flush=True)
    await mpc.shutdown()


if __name__ == "__main__":
    MessageExchanger.send = counted(MessageExchanger.send)
    mpc.run(main())
