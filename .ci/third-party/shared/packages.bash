# Sourced by the checks: what they install, each time into a temporary folder of their own.
# shellcheck shell=bash

# The program under test, as an absolute path.
crow_agent() {
	local root
	root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
	local program=${CROW_AGENT:-$root/target/debug/crow-agent}
	if [ ! -x "$program" ]; then
		echo "there is no program at $program: run cargo build -p crow-cli, or set CROW_AGENT" >&2
		return 1
	fi
	realpath "$program"
}

# install_aimock FOLDER: prints the module to import.
install_aimock() {
	npm install --silent --no-audit --no-fund --prefix "$1" '@copilotkit/aimock@^1.43' >&2
	echo "$1/node_modules/@copilotkit/aimock/dist/index.js"
}

# install_python FOLDER PACKAGE...: prints the interpreter.
install_python() {
	local folder=$1
	shift
	python3 -m venv "$folder" >&2
	"$folder/bin/pip" install --quiet --disable-pip-version-check --no-input "$@" >&2
	echo "$folder/bin/python"
}

# Installs the browser of the distribution, unless there is one.
install_chromium() {
	if ! command -v chromium >/dev/null; then
		apt-get update -qq >&2
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null
	fi
}
