#!/usr/bin/env bash
# The built agent as editors drive it: two independent clients of the protocol, bad input, servers of tools, and every line
# that was said against the schema of the protocol.
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=shared/packages.bash
source "$here/shared/packages.bash"

folder=$(realpath "$(mktemp -d)")
model_pid=
cleanup() {
	if [ -n "$model_pid" ]; then kill "$model_pid" 2>/dev/null || true; fi
	rm -rf "$folder"
}
trap cleanup EXIT
CROW_AGENT=$(crow_agent)
AIMOCK=$(install_aimock "$folder/npm")
npm install --silent --no-audit --no-fund --prefix "$folder/npm" \
	'@agentclientprotocol/sdk@^2.4' '@modelcontextprotocol/server-everything' 'ws@^8' >&2
python=$(install_python "$folder/python" 'agent-client-protocol>=0.12,<1' 'jsonschema>=4.23,<5' mcp-server-time)
mkdir "$folder/records" "$folder/home"
acp=$folder/npm/node_modules/@agentclientprotocol/sdk
ACP_DIST=$acp/dist
ACP_SDK=$acp/dist/v1/unstable/acp.js
WS=$folder/npm/node_modules/ws/wrapper.mjs
MCP_EVERYTHING=$folder/npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js
MCP_PORT=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
RECORDS=$folder/records
export CROW_AGENT AIMOCK ACP_DIST ACP_SDK WS MCP_EVERYTHING MCP_PORT RECORDS
export MCP_TIME=$python FOLDER=$folder HOME=$folder/home

# The model lives as long as the pipe to it.
mkfifo "$folder/model.in"
node "$here/acp/model.mjs" <"$folder/model.in" >"$folder/model.url" &
model_pid=$!
exec 9>"$folder/model.in"
for _ in $(seq 100); do
	if [ -s "$folder/model.url" ]; then break; fi
	sleep 0.1
done
OPENAI_BASE_URL=$(cat "$folder/model.url")
export OPENAI_BASE_URL OPENAI_API_KEY=none
mkdir -p "$HOME/.config/crow-agent"
echo 'model = "openai-chat/gpt-6.1-sol"' >"$HOME/.config/crow-agent/config.toml"

failed=0
timeout 300 node "$here/acp/client.mjs" || failed=1
timeout 200 node "$here/acp/draft.mjs" || failed=1
timeout 200 "$python" "$here/acp/client.py" || failed=1
timeout 100 "$python" "$here/acp/junk.py" || failed=1
for version in 1 2; do
	"$python" "$here/acp/validate.py" "$version" "$acp/schema/v$version/schema.unstable.json" "$RECORDS" || failed=1
done
if [ "$failed" != 0 ]; then cat "$RECORDS"/*.err >&2; fi
exit "$failed"
