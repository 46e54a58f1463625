#!/usr/bin/env bash
# The report of a session in a real browser: layout at three widths, light and dark, accessibility by axe, no request, no
# error in the console. And what `trace`, `ledger` and `stats` say about the same session.
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=shared/packages.bash
source "$here/shared/packages.bash"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
CROW_AGENT=$(crow_agent)
AIMOCK=$(install_aimock "$folder/npm")
install_chromium
npm install --silent --no-audit --no-fund --prefix "$folder/npm" 'playwright-core@^1.50' 'axe-core@^4.10' >&2
export CROW_AGENT AIMOCK TMPDIR=$folder MODULES=$folder/npm/node_modules
timeout 200 node "$here/report/main.mjs"
