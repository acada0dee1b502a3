#!/usr/bin/env bash
# Makes sure that a Chromium is there for the browser tests: nothing to do if it is, Debian's package if we may install it.
set -euo pipefail

if [ -n "${PARLEY_NO_BROWSER:-}" ] || command -v "${PARLEY_CHROMIUM:-chromium}" >/dev/null; then
    exit 0
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "The browser tests need Chromium: install it (Debian: apt-get install chromium), name one with PARLEY_CHROMIUM," >&2
    echo "or leave these tests out with PARLEY_NO_BROWSER=1." >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
