#!/usr/bin/env bash
# The inline chat in tmux: nothing of a long answer is lost, doubled or torn, also when the terminal changes its size after it.
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=shared/packages.bash
source "$here/shared/packages.bash"

if ! command -v tmux >/dev/null; then
	apt-get update -qq >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends tmux >/dev/null
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
CROW_AGENT=$(crow_agent)
AIMOCK=$(install_aimock "$folder/npm")
mkdir "$folder/home" "$folder/project"
export CROW_AGENT AIMOCK FOLDER=$folder
timeout 200 node "$here/inline/main.mjs"
