"""The demo: the paper's three rounds between real processes, and what `auto` gets for the same users and epsilon.

`python -m parley.launch.demo [USERS]`, which is what launch/demo.sh does.
"""

import sys
import textwrap

from parley.launch.api import Problem, make_problem
from parley.launch.results.answer import Answer

EPSILON = 2.0
USERS = 400_000
PROCESSES = 4


def hold(problem: Problem, protocol: str, name: str) -> Answer:
    """One run, printed as `parley run` prints it."""
    how = f"--protocol {protocol} --epsilon {EPSILON:g} --users {problem.users}"
    print(f"$ parley run --statistic kendall --levels 8x8 {how}", flush=True)
    answer = problem.run(epsilon=EPSILON, protocol=protocol, processes=PROCESSES, name=name, quiet=False)
    print(f"{answer}\n", flush=True)
    return answer


def difference(paper: Answer, best: Answer) -> str:
    """One sentence about why two answers about the same users differ."""
    narrower = (paper.interval95[1] - paper.interval95[0]) / (best.interval95[1] - best.interval95[0])
    return (
        f"Both promise epsilon {EPSILON:g} to the same users, and the second interval is {narrower:.0f} times "
        f"narrower: {paper.protocol} splits epsilon over {paper.rounds_declared} rounds in which every user answers, "
        f"with constants made for a proof; {best.protocol} asks every user once for all of epsilon, with constants "
        "made for a small error."
    )


def main(users: int = USERS) -> None:
    problem = make_problem(statistic="kendall", levels="8x8", users=users)
    print("The paper's three rounds:")
    paper = hold(problem, "three-round", "demo-paper")
    print("The best protocol we know for these users and this epsilon:")
    best = hold(problem, "auto", "demo-auto")
    print(textwrap.fill(difference(paper, best), 80))
    print("\nEach folder holds a report.html: open it in a browser.")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
