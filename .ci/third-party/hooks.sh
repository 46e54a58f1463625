#!/usr/bin/env bash
# What hooks read, checked against the types that Claude Code's vendor publishes for them.
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=shared/packages.bash
source "$here/shared/packages.bash"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
program=$(crow_agent)
npm install --silent --no-audit --no-fund --prefix "$folder" 'typescript@^5' '@types/node@^24' >&2
# Only unpacked, for its types.
(cd "$folder" && npm pack --silent '@anthropic-ai/claude-agent-sdk@0.3.332' >/dev/null && tar -xzf anthropic-*.tgz)
mkdir -p "$folder/home/.claude" "$folder/project"
python3 "$here/hooks/events.py" settings >"$folder/home/.claude/settings.json"
cd "$folder/project"
HOME=$folder/home "$program" hooks test >/dev/null
HOME=$folder/home "$program" hooks test SubagentStop >/dev/null
cd - >/dev/null
# Hooks of notifications run outside of the sandbox, in the home.
cat "$folder/project/events.jsonl" "$folder/home/events.jsonl" >"$folder/events.jsonl"
python3 "$here/hooks/events.py" check "$folder/events.jsonl" >"$folder/check.ts"
"$folder/node_modules/.bin/tsc" --noEmit --strict --skipLibCheck --target es2022 --module nodenext \
	--typeRoots "$folder/node_modules/@types" "$folder/check.ts"
echo "what hooks read fits the types of $(grep -c ': sdk\.' "$folder/check.ts") events"
