#!/usr/bin/env bash
# What the program says in JSON fits docs/book/src/json-output.schema.json, and our files of configuration fit the schemas of
# `config schema`, checked by an independent validator.
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=shared/packages.bash
source "$here/shared/packages.bash"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
CROW_AGENT=$(crow_agent)
AIMOCK=$(install_aimock "$folder/npm")
python=$(install_python "$folder/python" 'jsonschema[format-nongpl]>=4.23,<5')
mkdir "$folder/work" "$folder/lines"
export CROW_AGENT AIMOCK LINES=$folder/lines TMPDIR=$folder/work
timeout 120 node "$here/schema/record.mjs"
"$python" "$here/schema.py" "$here/../../docs/book/src/json-output.schema.json" "$folder/lines"
"$python" "$here/schema/config.py" "$CROW_AGENT" "$here/../.."
