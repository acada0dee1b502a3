"""Kendall's tau between body mass index and the progress of diabetes, privately (data of scikit-learn)."""

import numpy as np
from sklearn.datasets import load_diabetes

import parley

data = load_diabetes(scaled=False)
bmi = data.data[:, data.feature_names.index("bmi")]
people = np.random.default_rng(1).integers(len(bmi), size=50_000)
problem = parley.problem(
    {"bmi": bmi[people], "progress": data.target[people]},
    "kendall",
    columns=("bmi", "progress"),
    levels=(8, 8),
    ranges={"bmi": (15.0, 45.0), "progress": (0.0, 350.0)},
)
for option in problem.plan(epsilon=1.0)[:3]:
    print(f"{option.name:<20} {option.rounds} rounds, predicted RMSE {option.predicted_rmse:.4f}")
print(problem.simulate(epsilon=1.0, seed=1))
