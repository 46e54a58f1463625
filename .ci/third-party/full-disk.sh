#!/usr/bin/env bash
# A session whose disk becomes full: the reason is said, nothing acknowledged is lost, and it goes on when there is room.
set -euo pipefail
# shellcheck source=shared/packages.bash
source "$(dirname "$0")/shared/packages.bash"

# The small disk is mounted in a namespace of its own and is gone with it.
if [ "${1-}" != inside ]; then
	if [ "$(id -u)" != 0 ] || ! unshare --mount sh -c 'mount -t tmpfs -o size=64k tmpfs /mnt' 2>/dev/null; then
		echo 'a small disk cannot be mounted here: this needs root'
		echo 'full-disk: 0 passed, 0 failed, 1 skipped'
		exit 0
	fi
	exec unshare --mount bash "$0" inside
fi

folder=$(mktemp -d)
trap 'umount "$folder/disk" 2>/dev/null || true; rm -rf "$folder"' EXIT
CROW_AGENT=$(crow_agent)
AIMOCK=$(install_aimock "$folder/npm")
mkdir "$folder/disk" "$folder/work"
mount -t tmpfs -o size=2m,mode=700 tmpfs "$folder/disk"
export CROW_AGENT AIMOCK FULL_DISK=$folder/disk TMPDIR=$folder/work
timeout 120 node "$(dirname "$0")/full-disk/main.mjs"
