#!/usr/bin/env bash
# What people do every day works in the sandbox without a question: pytest, npm test, cargo test, git commit.
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=shared/packages.bash
source "$here/shared/packages.bash"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
CROW_AGENT=$(crow_agent)
AIMOCK=$(install_aimock "$folder/npm")
mkdir "$folder/project"
# In the project, as people have it: commands do not see the /tmp of the system.
install_python "$folder/project/.venv" 'pytest>=8,<10' >/dev/null
# The toolchain itself: what rustup puts in its place looks for settings in the home.
tools=$(dirname "$(rustup which cargo 2>/dev/null || command -v cargo)")
export CROW_AGENT AIMOCK FOLDER=$folder PATH=$tools:$PATH
timeout 300 node "$here/everyday/main.mjs"
