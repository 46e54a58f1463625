#!/usr/bin/env bash
# Telemetry over gRPC to a collector that is made of the services that OpenTelemetry publishes for Python.
set -euo pipefail
here=$(dirname "$0")
root=$(cd "$here/../.." && pwd)
# shellcheck source=shared/packages.bash
source "$here/shared/packages.bash"

folder=$(mktemp -d)
program=$(crow_agent)
cp "$program" "$folder/without"
trap 'mv -f "$folder/without" "$program"; rm -rf "$folder"' EXIT
(cd "$root" && cargo build --quiet -p crow-cli --features otlp-grpc)
cp "$root/target/debug/crow-agent" "$folder/crow-agent"
python=$(install_python "$folder/venv" 'grpcio>=1.60' 'opentelemetry-proto>=1.30')
CROW_AGENT=$folder/crow-agent TMPDIR=$folder timeout 120 "$python" "$here/otlp-grpc/main.py"
