#!/usr/bin/env bash
# From a fresh clone to a finished run: three rounds of Kendall's tau between an analyst, a board and four user nodes.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
install ""
exec "$venv"/bin/parley run --statistic kendall --levels 8x8 --protocol three-round --epsilon 4 \
    --users 20000 --processes 4 --name demo "$@"
