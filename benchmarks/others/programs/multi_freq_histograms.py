"""multi-freq-ldpy: histograms of the same users, again and again, as it ships them and without its clipping.

    python multi_freq_histograms.py INPUTS.npy K EPSILON TRIALS MECHANISM OUT.npz

Writes arrays `clipped` and `inverted` (a row a trial) and prints {"seconds"}, those of every trial; the mechanism is
compiled before the first. Both histograms of a trial come from the same reports.
"""

import json
import sys
import time
from types import ModuleType

import numpy as np
from multi_freq_ldpy.pure_frequency_oracles import GRR, SS, UE

MECHANISMS = {
    "GRR": (GRR, GRR.GRR_Client, GRR.GRR_Aggregator_MI),
    "SS": (SS, SS.SS_Client, SS.SS_Aggregator_MI),
    "OUE": (UE, UE.UE_Client, lambda reports, k, epsilon: UE.UE_Aggregator_MI(reports, epsilon)),
}


class Inversion:
    """The package's own last step, MI, which also keeps what it would return if it did not clip."""

    def __init__(self, module: ModuleType) -> None:
        self.shipped, self.unclipped = module.MI, []
        module.MI = self

    def __call__(self, counts: np.ndarray, users: int, p: float, q: float) -> np.ndarray:
        self.unclipped.append((np.asarray(counts) - users * q) / (p - q) / users)
        return self.shipped(counts, users, p, q)


def main() -> None:
    inputs, k, epsilon = np.load(sys.argv[1]).tolist(), int(sys.argv[2]), float(sys.argv[3])
    module, randomize, aggregate = MECHANISMS[sys.argv[5]]
    inversion, clipped, seconds = Inversion(module), [], []
    randomize(0, k, epsilon)
    for _ in range(int(sys.argv[4])):
        began = time.perf_counter()
        clipped.append(aggregate([randomize(each, k, epsilon) for each in inputs], k, epsilon))
        seconds.append(time.perf_counter() - began)
    np.savez(sys.argv[6], clipped=clipped, inverted=inversion.unclipped)
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
