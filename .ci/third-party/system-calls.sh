#!/usr/bin/env bash
# How many system calls a step costs that runs a command: with the sandbox, the capture of changes and the session on disk.
# Times differ from machine to machine, this does not.
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=shared/packages.bash
source "$here/shared/packages.bash"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
PROGRAM=$(crow_agent)
AIMOCK=$(install_aimock "$folder/npm")
if ! command -v strace >/dev/null; then
	apt-get install -qq -y strace >/dev/null || { apt-get update -qq && apt-get install -qq -y strace >/dev/null; }
fi
# Programs that are built for debugging ask before each close whether the descriptor is open: nothing else calls fcntl often.
cat >"$folder/traced" <<'TRACED'
#!/bin/sh
exec strace -f -qq -c -e 'trace=!fcntl' -o "$COUNTS" "$PROGRAM" "$@"
TRACED
chmod +x "$folder/traced"
export PROGRAM CROW_AGENT=$folder/traced AIMOCK FOLDER=$folder
timeout 300 node "$here/system-calls/main.mjs"
