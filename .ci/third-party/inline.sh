#!/usr/bin/env bash
# The inline chat in tmux: nothing of an answer of 100,000 lines is lost, doubled or torn while the terminal changes its size.
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
mkdir "$folder/home" "$folder/project"
export CROW_AGENT FOLDER=$folder
timeout 240 node "$here/inline/main.mjs"
