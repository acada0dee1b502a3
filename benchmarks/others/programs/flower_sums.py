"""Flower's simulation engine: n clients, a few rounds, in each of them a vector to every client and a sum of theirs.

    python flower_sums.py CLIENTS ENTRIES ROUNDS

A client answers with its number in every entry, so the right sum is known. Prints {"rounds", "messages", "total"}.
"""

import json
import sys
import time

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

CLIENTS, ENTRIES, ROUNDS = map(int, sys.argv[1:4])

client, server = ClientApp(), ServerApp()
figures: dict[str, float] = {}


@client.query()
def answer(message: Message, context: Context) -> Message:
    """A vector for a vector."""
    (heard,) = message.content["vector"].to_numpy_ndarrays()
    mine = np.full(len(heard), 1.0 + int(context.node_config["partition-id"]))
    return Message(RecordDict({"vector": ArrayRecord([mine])}), reply_to=message)


@server.main()
def ask(grid: Grid, context: Context) -> None:
    """Once every client is known: the rounds."""
    clients: list[int] = []
    while len(clients) < CLIENTS:
        clients = list(grid.get_node_ids())
    began, total, messages = time.perf_counter(), np.zeros(ENTRIES), 0
    for number in range(ROUNDS):
        content = RecordDict({"vector": ArrayRecord([total])})
        asked = [
            Message(content, dst_node_id=each, message_type=MessageType.QUERY, group_id=str(number)) for each in clients
        ]
        answers = [each for each in grid.send_and_receive(asked) if not each.has_error()]
        total = sum(each.content["vector"].to_numpy_ndarrays()[0] for each in answers)
        messages += len(asked) + len(answers)
    figures.update(rounds=time.perf_counter() - began, messages=messages, total=float(total[-1]))


if __name__ == "__main__":
    run_simulation(server, client, CLIENTS, backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}})
    print(json.dumps(figures))
