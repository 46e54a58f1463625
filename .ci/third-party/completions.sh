#!/usr/bin/env bash
# fish and zsh complete commands, options and what is configured. Bash is checked by the tests of crow-cli.
set -euo pipefail
# shellcheck source=shared/packages.bash
source "$(dirname "$0")/shared/packages.bash"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
CROW_AGENT=$(crow_agent)
for shell in fish zsh; do
	if ! command -v "$shell" >/dev/null && ! { apt-get update && apt-get install --yes "$shell"; } >"$folder/apt" 2>&1; then
		echo "$shell cannot be had here"
		echo 'completions: 0 passed, 0 failed, 1 skipped'
		exit 0
	fi
done
export HOME=$folder ANTHROPIC_API_KEY=sk-test-0123456789 CROW_AGENT
mkdir -p "$folder/.config/crow-agent/providers"
printf '[provider]\nname = "house"\ntype = "openai-chat"\nbase_url = "http://127.0.0.1:9/v1"\n[defaults]\nmodel = "m:8b"\n' \
	>"$folder/.config/crow-agent/providers/house.toml"
for shell in fish zsh; do
	"$CROW_AGENT" completions "$shell" >"$folder/script.$shell"
done
export SCRIPTS=$folder
cd "$folder"

# What fish offers for a line, in lines with a tab before what it is.
of_fish() {
	LINE=$1 timeout 20 fish --no-config -c 'source $SCRIPTS/script.fish; complete -C "$LINE"' | cut -f 1
}

# What becomes of a line in zsh when tab is pressed: a function in the place of the program prints its words.
of_zsh() {
	LINE=$1 timeout 20 zsh -f <<'ZSH'
zmodload zsh/zpty
zpty shell "TERM=dumb PS1= zsh -f -i"
zpty -w shell 'autoload -U compinit; compinit -u; source $SCRIPTS/script.zsh; crow-agent() { print -r -- "typed<${(j: :)@}>" }; print ready-$((6 * 7))'
zpty -r shell answer '*ready-42*'
zpty -w shell "$LINE"$'\t'
zpty -r shell answer '*typed<*>*'
answer=${answer##*typed<}
print -r -- "crow-agent ${answer%%>*}"
ZSH
}

passed=0 failed=0
# check SHELL LINE EXPECTED
check() {
	local actual
	actual=$("of_$1" "$2" 2>&1) || true
	if grep --quiet --line-regexp --fixed-strings -- "$3" <<<"$actual"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf 'FAILED %s: %s<TAB> is not %s: %s\n' "$1" "$2" "$3" "$actual"
	fi
}

check fish 'crow-agent sess' sessions
check fish 'crow-agent sessions ' show
check fish 'crow-agent sessions show --ch' --changes
check fish 'crow-agent -m hou' house/m:8b
check fish 'crow-agent run --model=house/m:' --model=house/m:8b
check fish 'crow-agent --agent BUILD-H' BUILD-HITL
check fish 'crow-agent login anth' anthropic
check zsh 'crow-agent sess' 'crow-agent sessions'
check zsh 'crow-agent sessions sh' 'crow-agent sessions show'
check zsh 'crow-agent sessions show --ch' 'crow-agent sessions show --changes'
check zsh 'crow-agent -m hou' 'crow-agent -m house/m:8b'
check zsh 'crow-agent run --model=house/m:' 'crow-agent run --model=house/m:8b'
check zsh 'crow-agent --agent BUILD-H' 'crow-agent --agent BUILD-HITL'
check zsh 'crow-agent login anth' 'crow-agent login anthropic'
echo "completions: $passed passed, $failed failed"
[ "$failed" = 0 ]
