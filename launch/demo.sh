#!/usr/bin/env bash
# From a fresh clone to two finished runs of Kendall's tau: the paper's three rounds, and the best protocol on the same users.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
install ""
exec "$venv"/bin/python -m parley.launch.demo "$@"
