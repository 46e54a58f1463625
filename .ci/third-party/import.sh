#!/usr/bin/env bash
# Sessions and servers that the other programs wrote themselves are imported, and sessions go on.
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=shared/packages.bash
source "$here/shared/packages.bash"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
CROW_AGENT=$(crow_agent)
export CROW_AGENT FOLDER=$folder
timeout 900 bash "$here/import/programs.sh" "$folder"
AIMOCK=$folder/npm/mock/node_modules/@copilotkit/aimock/dist/index.js
export AIMOCK
timeout 200 node "$here/import/main.mjs"
