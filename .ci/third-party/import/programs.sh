#!/usr/bin/env bash
# Makes sessions and configuration files with the other programs themselves: programs.sh FOLDER [PROGRAM...]
#
# Installs each program into FOLDER/npm, and lets it talk with a mock of its model service on loopback. What it writes
# stays in FOLDER/homes/PROGRAM and FOLDER/project-PROGRAM. Ends with an error as soon as one does not do what it should.
# Needs Linux on x86-64, node from 20, npm, curl and the registry of npm.
set -euo pipefail

HERE=$(cd "$(dirname "$0")" && pwd)
FOLDER=$(realpath "${1:?the folder to make them in}")
shift
PROGRAMS=("$@")
[ $# -gt 0 ] || PROGRAMS=(claude codex pi gemini opencode)

CLAUDE=@anthropic-ai/claude-code@2.1.332
CODEX=@openai/codex@0.171.0
PI=@earendil-works/pi-coding-agent@1.6.0
GEMINI=@google/gemini-cli@0.61.0
OPENCODE=opencode-ai@1.18.33
AIMOCK_PACKAGE=@copilotkit/aimock@1.43.0
# What pi runs on; the one of the system may be older than it allows.
NODE=node@22.23.3

MOCK=
SERVER=
trap 'end_server; end_mock' EXIT

end_mock() {
	if [ -n "$MOCK" ]; then
		kill "$MOCK" 2>/dev/null || true
		wait "$MOCK" 2>/dev/null || true
		MOCK=
	fi
}

end_server() {
	if [ -n "$SERVER" ]; then
		kill "$SERVER" 2>/dev/null || true
		wait "$SERVER" 2>/dev/null || true
		SERVER=
	fi
}

# install NAME PACKAGE...
install() {
	local name=$1
	shift
	timeout 400 npm install --silent --no-audit --no-fund --prefix "$FOLDER/npm/$name" "$@" >&2
}

program() {
	echo "$FOLDER/npm/$1/node_modules/.bin/$2"
}

# begin PROGRAM INSTRUCTIONS: an empty home, a project with a file of instructions for the model, and the mock.
begin() {
	WHOLE_HOME=$FOLDER/homes/$1
	PROJECT=$FOLDER/project-$1
	if [ -e "$WHOLE_HOME" ] || [ -e "$PROJECT" ]; then
		echo "$WHOLE_HOME or $PROJECT is there already" >&2
		return 1
	fi
	mkdir -p "$WHOLE_HOME" "$PROJECT" "$FOLDER/log" "$FOLDER/tmp"
	printf 'first line\nsecond line\n' >"$PROJECT/notes.txt"
	echo 'Answer in one sentence.' >"$PROJECT/$2"
	local port=$FOLDER/log/$1.port
	: >"$port"
	AIMOCK=$FOLDER/npm/mock/node_modules/@copilotkit/aimock/dist/index.js PROJECT=$PROJECT \
		node "$HERE/mock.mjs" "$1" "$FOLDER/log/$1.requests.jsonl" >"$port" &
	MOCK=$!
	for _ in $(seq 200); do
		[ -s "$port" ] && break
		sleep 0.05
	done
	PORT=$(cat "$port")
	: "${PORT:?the mock did not start}"
	CLEAN=(env -i HOME="$WHOLE_HOME" PATH="$PATH" LANG=C.UTF-8 TERM=dumb)
	CLEAN+=(TMPDIR="$FOLDER/tmp" CLAUDE_CODE_TMPDIR="$FOLDER/tmp")
	cd "$PROJECT"
}

# in_home VARIABLE=VALUE... COMMAND: with nothing of this environment.
in_home() {
	timeout 120 "${CLEAN[@]}" "$@"
}

# expect TEXT COMMAND...: it must succeed, and print the text.
expect() {
	local text=$1 output status=0
	shift
	output=$("$@" 2>"$FOLDER/log/stderr") || status=$?
	if [ $status -ne 0 ] || [[ $output != *"$text"* ]]; then
		printf '%s\nexit code %s, expected: %s\ngot: %s\n' "$*" $status "$text" "$output" >&2
		tail -n 20 "$FOLDER/log/stderr" >&2
		return 1
	fi
}

# finish PROGRAM FILE...: the session files, which must be there.
finish() {
	local name=$1
	shift
	end_mock
	for file; do
		if [ ! -s "$file" ]; then
			echo "$name: there is no $file" >&2
			return 1
		fi
	done
	if [ "$(cat "$PROJECT/summary.txt")" != "2 lines" ]; then
		echo "$name: it did not write summary.txt" >&2
		return 1
	fi
	echo "$name: $# session file(s), the first is $1"
}

COUNT="Count the lines of notes.txt."
COUNTED="The file notes.txt has two lines."
WRITE="Write the count into summary.txt."
WRITTEN="The count is in summary.txt now."
SHOW="Show missing.txt."
SHOWN="There is no such file."

claude() {
	in_home ANTHROPIC_BASE_URL="http://127.0.0.1:$PORT" ANTHROPIC_API_KEY=x DISABLE_AUTOUPDATER=1 \
		CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 "$(program claude claude)" "$@" </dev/null
}

make_claude() {
	install claude "$CLAUDE"
	begin claude CLAUDE.md
	claude mcp add files -s user -e KEY=value -- true --verbose >&2
	claude mcp add remote -s local -t http http://127.0.0.1:9/mcp -H "X-Key: none" >&2
	claude mcp add shared -s project -- true >&2
	local id=00000000-0000-4000-8000-00000000000
	local first=${id}1 helper=${id}2 branched=${id}3
	expect "$COUNTED" claude --session-id $first -p "$COUNT" --allowedTools Bash
	expect "$WRITTEN" claude -c -p "$WRITE" --permission-mode acceptEdits
	expect "$SHOWN" claude --resume $first -p "$SHOW" --allowedTools Bash
	expect Goodbye claude --resume $first --fork-session -p "Say goodbye."
	claude --resume $first -p /compact >&2
	expect Goodbye claude --resume $first -p "Say goodbye."
	expect "The helper" claude --session-id $helper --name "Helped counting" -p "Let a helper count." \
		--allowedTools Bash Agent
	expect "$COUNTED" claude --session-id $branched -p "$COUNT" --allowedTools Bash
	expect "$WRITTEN" claude --resume $branched -p "$WRITE" --permission-mode acceptEdits
	local answer
	answer=$(sed -n '/"end_turn"/s/.*"uuid":"\([^"]*\)".*/\1/p' "$WHOLE_HOME"/.claude/projects/*/$branched.jsonl | sed -n 1p)
	expect "$SHOWN" claude --resume $branched --resume-session-at "$answer" -p "$SHOW" --allowedTools Bash
	finish claude "$WHOLE_HOME"/.claude/projects/*/*.jsonl
}

codex() {
	in_home CODEX_HOME="$WHOLE_HOME/.codex" LOOPBACK_KEY=x "$(program codex codex)" "$@" </dev/null
}

make_codex() {
	install codex "$CODEX"
	begin codex AGENTS.md
	mkdir "$WHOLE_HOME/.codex"
	cat >"$WHOLE_HOME/.codex/config.toml" <<-END
		model = "gpt-6.1-sol"
		model_provider = "loopback"
		model_reasoning_summary = "auto"
		approval_policy = "never"
		sandbox_mode = "danger-full-access"

		[model_providers.loopback]
		name = "A mock on loopback"
		base_url = "http://127.0.0.1:$PORT/v1"
		wire_api = "responses"
		env_key = "LOOPBACK_KEY"
	END
	codex mcp add files --env KEY=value -- true --verbose >&2
	codex mcp add remote --url http://127.0.0.1:9/mcp --bearer-token-env-var REMOTE_TOKEN >&2
	expect "$COUNTED" codex exec --skip-git-repo-check "$COUNT"
	expect "$WRITTEN" codex exec resume --last --skip-git-repo-check "$WRITE"
	expect "$SHOWN" codex exec resume --last --skip-git-repo-check "$SHOW"
	local first
	first=$(basename "$WHOLE_HOME"/.codex/sessions/*/*/*/*.jsonl .jsonl | grep -o '[0-9a-f-]\{36\}$')
	expect Goodbye codex exec fork --skip-git-repo-check "$first" "Say goodbye."
	# A model that it does not know is offered plain functions. The limit makes it summarize between the turns.
	expect "$COUNTED" codex exec --skip-git-repo-check -m mock-1 "$COUNT"
	expect "$WRITTEN" codex exec resume --last --skip-git-repo-check -m mock-1 -c model_auto_compact_token_limit=2000 "$WRITE"
	finish codex "$WHOLE_HOME"/.codex/sessions/*/*/*/rollout-*.jsonl
}

pi() {
	in_home PI_OFFLINE=1 "$(program node node)" "$(program pi pi)" --model loopback/mock-1 "$@"
}

pi_mcp() {
	in_home PI_OFFLINE=1 "$(program node node)" "$(program pi pi)" mcp "$@"
}

# pi_commands: takes the rows of its protocol, one every two seconds, and waits for the last.
pi_commands() {
	while read -r row; do
		echo "$row"
		sleep 2
	done | pi --mode rpc --session "$1"
}

make_pi() {
	install node "$NODE"
	install pi "$PI"
	begin pi AGENTS.md
	mkdir -p "$WHOLE_HOME/.pi/agent"
	cat >"$WHOLE_HOME/.pi/agent/models.json" <<-END
		{
		  "providers": {
		    "loopback": {
		      "name": "A mock on loopback",
		      "baseUrl": "http://127.0.0.1:$PORT/v1",
		      "api": "openai-completions",
		      "apiKey": "x",
		      "models": [{ "id": "mock-1", "name": "Mock One", "reasoning": true }]
		    }
		  }
		}
	END
	echo '{ "compaction": { "keepRecentTokens": 1 } }' >"$WHOLE_HOME/.pi/agent/settings.json"
	pi_mcp add files --env KEY=value -- true --verbose >&2
	pi_mcp add remote --url http://127.0.0.1:9/mcp --bearer-token-env-var REMOTE_TOKEN >&2
	pi_mcp add -l shared -- true >&2
	local sessions="$WHOLE_HOME/.pi/agent/sessions"
	expect "$COUNTED" pi --name "Counting" -p "$COUNT" </dev/null
	expect "$WRITTEN" pi -c -p "$WRITE" </dev/null
	expect "$SHOWN" pi -c -p "$SHOW" </dev/null
	local first
	first=$(echo "$sessions"/*/*.jsonl)
	expect Goodbye pi --fork "$first" -p "Say goodbye." </dev/null
	pi_commands "$first" >"$FOLDER/log/pi.rpc" <<-END
		{"type": "bash", "command": "echo from the user"}
		{"type": "compact"}
		{"type": "prompt", "message": "Say goodbye."}
	END
	local fork
	fork=$(grep -l '"parentSession"' "$sessions"/*/*.jsonl)
	"$(program node node)" "$HERE/pi-branch.mjs" "$FOLDER/npm/pi/node_modules/@earendil-works/pi-coding-agent/dist/index.js" "$fork"
	expect "$SHOWN" pi --session "$fork" -p "$SHOW" </dev/null
	finish pi "$sessions"/*/*.jsonl
}

gemini() {
	in_home GEMINI_API_KEY=x GOOGLE_GEMINI_BASE_URL="http://127.0.0.1:$PORT" GEMINI_CLI_NO_RELAUNCH=true \
		GEMINI_CLI_SYSTEM_SETTINGS_PATH="$FOLDER/log/gemini.system.json" \
		"$(program gemini gemini)" "$@" </dev/null
}

make_gemini() {
	install gemini "$GEMINI"
	begin gemini GEMINI.md
	mkdir "$WHOLE_HOME/.gemini"
	cat >"$WHOLE_HOME/.gemini/settings.json" <<-END
		{
		  "security": { "auth": { "selectedType": "gemini-api-key" } },
		  "privacy": { "usageStatisticsEnabled": false },
		  "general": { "enableAutoUpdate": false }
		}
	END
	gemini mcp add files -s user -e KEY=value true -- --verbose >&2
	gemini mcp add remote -s user -t http http://127.0.0.1:9/mcp -H "X-Key: none" >&2
	gemini mcp add shared -s project true >&2
	expect "$COUNTED" gemini -y --skip-trust -p "$COUNT"
	expect "$WRITTEN" gemini -y --skip-trust --resume latest -p "$WRITE"
	expect "$SHOWN" gemini -y --skip-trust --resume latest -p "$SHOW"
	# With a low limit it summarizes before the turn.
	echo '{ "model": { "compressionThreshold": 0.00001 } }' >"$FOLDER/log/gemini.system.json"
	expect Goodbye gemini -y --skip-trust --resume latest -p "Say goodbye."
	finish gemini "$WHOLE_HOME"/.gemini/tmp/*/chats/*
}

opencode() {
	in_home "$(program opencode opencode)" "$@" </dev/null
}

make_opencode() {
	install opencode "$OPENCODE"
	begin opencode AGENTS.md
	CLEAN+=(OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_DISABLE_AUTOUPDATE=1)
	mkdir -p "$WHOLE_HOME/.config/opencode"
	cat >"$WHOLE_HOME/.config/opencode/opencode.json" <<-END
		{
		  "\$schema": "https://opencode.ai/config.json",
		  "model": "loopback/mock-1",
		  "compaction": { "tail_turns": 1 },
		  "provider": {
		    "loopback": {
		      "npm": "@ai-sdk/openai-compatible",
		      "name": "A mock on loopback",
		      "options": { "baseURL": "http://127.0.0.1:$PORT/v1", "apiKey": "x" },
		      "models": { "mock-1": { "name": "Mock One", "reasoning": true, "tool_call": true } }
		    }
		  }
		}
	END
	opencode mcp add files --env KEY=value -- true --verbose >&2
	opencode mcp add remote --url http://127.0.0.1:9/mcp --header X-Key=none >&2
	expect "$COUNTED" opencode run "$COUNT"
	expect "$WRITTEN" opencode run -c "$WRITE"
	expect "$SHOWN" opencode run -c "$SHOW"
	local first
	first=$(opencode db --format tsv 'select id from session' | grep '^ses_')
	expect Goodbye opencode run -s "$first" --fork "Say goodbye."
	local fork
	fork=$(opencode db --format tsv "select id from session where id <> '$first'" | grep '^ses_')
	expect "The helper" opencode run --title "Helped counting" "Let a helper count."
	# Its server summarizes a session on request, and takes a session back to a part of a message.
	local address server=$FOLDER/log/opencode.server
	: >"$server"
	# By no function, so that this is the process to end.
	timeout 120 "${CLEAN[@]}" "$(program opencode opencode)" serve --port 0 >"$server" 2>&1 </dev/null &
	SERVER=$!
	for _ in $(seq 200); do
		address=$(grep -o 'http://127.0.0.1:[0-9]*' "$server" || true)
		[ -n "$address" ] && break
		sleep 0.1
	done
	curl -sS --fail --max-time 60 -H 'content-type: application/json' \
		-d '{"providerID": "loopback", "modelID": "mock-1"}' "$address/session/$first/summarize" >"$FOLDER/log/opencode.summarized"
	local row
	row=$(opencode db --format tsv "select message_id, id from part where session_id = '$fork' and data like '%cat missing.txt%' and data like '{\"type\":\"tool\"%'" | grep '^msg_')
	curl -sS --fail --max-time 60 -H 'content-type: application/json' \
		-d "{\"messageID\": \"${row%%$'\t'*}\", \"partID\": \"${row##*$'\t'}\"}" "$address/session/$fork/revert" >"$FOLDER/log/opencode.reverted"
	end_server
	expect Goodbye opencode run -s "$first" "Say goodbye."
	finish opencode "$WHOLE_HOME"/.local/share/opencode/opencode.db
}

if [ ! -e "$FOLDER/npm/mock" ]; then
	install mock "$AIMOCK_PACKAGE"
fi
for name in "${PROGRAMS[@]}"; do
	"make_$name"
done
