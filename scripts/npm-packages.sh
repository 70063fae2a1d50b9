#!/usr/bin/env bash
# Install the npm packages that tests talk to into node_modules/. Does nothing when they are there.
#
# Without npm, or without a network, it says so, and those tests are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

list=scripts/npm-packages.txt
installed=node_modules/installed-npm-packages.txt

cmp --silent "$list" "$installed" && exit 0

if ! command -v npm >/dev/null 2>&1; then
  echo "npm packages: npm is missing; the tests that need them are skipped"
  exit 0
fi

packages=()
while read -r package version _; do
  case "$package" in '' | '#'*) continue ;; esac
  packages+=("$package@$version")
done <"$list"

echo "npm packages: installing ${packages[*]}"
log="$(mktemp)"
trap 'rm -f "$log"' EXIT
if npm install --prefix . --no-save --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error \
  "${packages[@]}" >"$log" 2>&1; then
  cp "$list" "$installed"
else
  tail -n 15 "$log" >&2
  echo "npm packages: could not be installed; the tests that need them are skipped"
fi
