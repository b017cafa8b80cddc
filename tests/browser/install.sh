#!/usr/bin/env bash
# Install Debian's Chromium for the browser tests, if it is not there. Needs root, or sudo without a password.
set -euo pipefail
if command -v chromium >/dev/null; then
    exit 0
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
    as_root=(sudo --non-interactive)
fi
"${as_root[@]}" apt-get update --quiet --quiet
"${as_root[@]}" apt-get install --yes --no-install-recommends --quiet chromium fonts-dejavu-core
