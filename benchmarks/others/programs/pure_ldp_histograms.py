"""pure-ldp: histograms of the same users, again and again, as it ships them (it does not clip).

    python pure_ldp_histograms.py INPUTS.npy K EPSILON TRIALS MECHANISM OUT.npz

Writes the array `plain` (a row a trial) and prints {"seconds"}, those of every trial.
"""

import json
import sys
import time

import numpy as np
from pure_ldp.frequency_oracles.hadamard_response import HadamardResponseClient, HadamardResponseServer
from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer


def same(value: int) -> int:
    """Inputs are numbered from 0 already."""
    return value


def pair(mechanism: str, epsilon: float, k: int):
    if mechanism == "OUE":
        return UEClient(epsilon, k, use_oue=True, index_mapper=same), UEServer(
            epsilon, k, use_oue=True, index_mapper=same
        )
    server = HadamardResponseServer(epsilon, k, index_mapper=same)
    return HadamardResponseClient(epsilon, k, server.get_hash_funcs(), index_mapper=same), server


def main() -> None:
    inputs, k, epsilon = np.load(sys.argv[1]).tolist(), int(sys.argv[2]), float(sys.argv[3])
    plain, seconds = [], []
    for _ in range(int(sys.argv[4])):
        began = time.perf_counter()
        client, server = pair(sys.argv[5], epsilon, k)
        server.aggregate_all([client.privatise(each) for each in inputs])
        plain.append(np.asarray(server.estimate_all(range(k), suppress_warnings=True)) / len(inputs))
        seconds.append(time.perf_counter() - began)
    np.savez(sys.argv[6], plain=plain)
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
