# Sourced by demo.sh and test.sh: makes .venv, or the folder VENV names, with the pinned versions, once for each state of the two files that say what goes in.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv="${VENV:-.venv}"

# The versions everything is tested on, newest first. pyenv hides those that are not chosen.
find_python() {
    local candidate hidden="${PYENV_ROOT:-${HOME:-}/.pyenv}/versions"
    for candidate in "${PYTHON:-}" python3.13 python3.12 "$hidden"/3.13.*/bin/python "$hidden"/3.12.*/bin/python \
        python3.11 python3.14 python3; do
        if [ -n "$candidate" ] && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "Parley needs Python 3.11 or newer; set PYTHON to one." >&2
    return 1
}

# install EXTRAS: the project in editable form, with the named extras ("" for none).
install() {
    local python stamp wanted
    [ -x "$venv/bin/python" ] || { python=$(find_python) && "$python" -m venv "$venv"; }
    stamp="$venv/.parley${1:+-$1}"
    wanted=$(cat pyproject.toml constraints.txt | cksum)
    if [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ]; then
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".${1:+[$1]}"
        echo "$wanted" >"$stamp"
    fi
}
