#!/usr/bin/env bash
# Whole runs of the program against aimock, an independent mock of the model services, in each wire format.
set -euo pipefail
# shellcheck source=shared/packages.bash
source "$(dirname "$0")/shared/packages.bash"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
CROW_AGENT=$(crow_agent)
AIMOCK=$(install_aimock "$folder/npm")
export CROW_AGENT AIMOCK TMPDIR=$folder
timeout 200 node "$(dirname "$0")/aimock/main.mjs"
