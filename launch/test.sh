#!/usr/bin/env bash
# From a fresh clone to the last test: style, types, tests.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
install test
./launch/browser.sh
# Tests start many small processes; a thread pool in each would only make them wait for each other.
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
"$venv"/bin/ruff check .
"$venv"/bin/ruff format --check .
"$venv"/bin/mypy
# A file's tests stay together: they share what they made first.
exec "$venv"/bin/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile "$@"
