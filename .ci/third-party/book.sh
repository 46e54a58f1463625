#!/usr/bin/env bash
# The book can be built, and its links lead to pages, headings and files of the built book.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# Without optimization it is installed in less than a minute, and this book is built in less than a second.
command -v mdbook >/dev/null || cargo install mdbook --version 0.5.4 --locked --no-default-features --debug --quiet
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mdbook build --dest-dir "$folder/book" "$here/../../docs/book" 2>&1 | tee "$folder/log"
if grep -qE 'WARN|ERROR' "$folder/log"; then
	exit 1
fi
python3 "$here/book/links.py" "$folder/book"
