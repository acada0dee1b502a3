"""AUC of one measurement for telling tumours apart, without anybody sending theirs (data of scikit-learn)."""

from sklearn.datasets import load_breast_cancer

import parley

data = load_breast_cancer(as_frame=True)
frame = data.frame.assign(benign=data.target.astype(str))
# Each tumour stands for 40 people, so that there is a crowd to hide in.
crowd = {name: frame[name].to_numpy().repeat(40) for name in ("mean radius", "benign")}
problem = parley.problem(
    crowd,
    "auc",
    columns=("mean radius", "benign"),
    levels=32,
    ranges={"mean radius": (5.0, 30.0)},
)
print(problem.simulate(epsilon=2.0, protocol="one-round-tuned", seed=1))
