#!/usr/bin/env bash
# Pin the requirement files again: every version exact, every file by hash, no index address.
#
#   scripts/lock.sh [--upgrade]
#
# Needs uv. Without --upgrade, pins that still satisfy the .in files stay as they are.
set -euo pipefail
cd "$(dirname "$0")/.."

uv="$(command -v uv || true)"
[ -n "$uv" ] || uv=.venv/bin/uv
[ -x "$uv" ] || { echo "lock: uv is not installed" >&2; exit 1; }

compile() {
  "$uv" pip compile --quiet --generate-hashes --universal --python-version 3.11 \
    --no-emit-index-url --no-header "$@"
}

compile pyproject.toml requirements/test.in --all-extras --output-file requirements/test.txt "$@"
# The demo installs the versions that were tested.
compile pyproject.toml requirements/demo.in --constraint requirements/test.txt \
  --no-annotate --output-file requirements/demo.txt "$@"
compile requirements/bench.in --output-file requirements/bench.txt "$@"
