#!/usr/bin/env bash
# Servers of others over standard streams and HTTP: listed, called, killed with -9 and called again.
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=shared/packages.bash
source "$here/shared/packages.bash"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
CROW_AGENT=$(crow_agent)
AIMOCK=$(install_aimock "$folder/npm")
npm install --silent --no-audit --no-fund --prefix "$folder/servers" '@modelcontextprotocol/server-everything@>=2025' \
	'@modelcontextprotocol/server-filesystem@>=2025' '@modelcontextprotocol/server-memory@>=2025' >&2
NODE_SERVERS=$folder/servers/node_modules/.bin
EVERYTHING=$NODE_SERVERS/mcp-server-everything
PYTHON_SERVERS=$(dirname "$(install_python "$folder/venv" 'mcp-server-time>=2025' 'mcp-server-git>=2025' 'mcp-server-fetch>=2025')")
TIME=$PYTHON_SERVERS/mcp-server-time
export CROW_AGENT AIMOCK EVERYTHING NODE_SERVERS PYTHON_SERVERS TIME FOLDER=$folder
timeout 240 node "$here/mcp/main.mjs"
