#!/usr/bin/env bash
# The live view in a real browser, with real sessions: starting, answering, steering, cancelling and undoing, sessions of
# other processes, fifty at once, a phone's width, accessibility by axe, and who is refused.
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=shared/packages.bash
source "$here/shared/packages.bash"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
CROW_AGENT=$(crow_agent)
install_chromium
npm install --silent --no-audit --no-fund --prefix "$folder/npm" 'playwright-core@^1.50' 'axe-core@^4.10' >&2
export CROW_AGENT TMPDIR=$folder MODULES=$folder/npm/node_modules
timeout 240 node "$here/serve/main.mjs"
