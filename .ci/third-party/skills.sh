#!/usr/bin/env bash
# Skills of public packages, and the reference validator of the format: Crow uses the former, and finds the faults that the
# latter finds.
set -euo pipefail
here=$(dirname "$0")
# shellcheck source=shared/packages.bash
source "$here/shared/packages.bash"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
program=$(crow_agent)
python=$(install_python "$folder/python" 'skills-ref==0.1.1')
"$folder/python/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$folder/wheels" \
	fastapi sqlmodel typer >&2
(cd "$folder" && npm pack --silent '@playwright/cli' '@tanstack/db' >/dev/null)
# Only unpacked: nothing of the packages is run.
for wheel in "$folder"/wheels/*.whl; do
	"$python" -m zipfile -e "$wheel" "$folder/unpacked"
done
for package in "$folder"/*.tgz; do
	tar -xzf "$package" -C "$folder/unpacked"
done
"$python" "$here/skills/compare.py" "$program" "$folder"
