#!/usr/bin/env bash
# Install the system packages that tests name, where that is possible without asking anybody.
#
# Only as root on a system with apt-get; elsewhere it prints what is missing, and those tests are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

is_there() {
  command -v "$1" >/dev/null 2>&1 && return
  # Debian keeps the server's programs out of the search path.
  [ "$1" = postgres ] && compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null
}

programs=()
packages=()
while read -r program package _; do
  case "$program" in '' | '#'*) continue ;; esac
  is_there "$program" && continue
  grep -rqE --include='*.py' "needs\\(([^)]*, *)?\"$program\"" tests || continue
  programs+=("$program")
  packages+=("$package")
done <scripts/system-packages.txt

[ "${#packages[@]}" -eq 0 ] && exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "system packages: installing ${packages[*]}"
  export DEBIAN_FRONTEND=noninteractive
  log="$(mktemp)"
  trap 'rm -f "$log"' EXIT
  if apt-get update -q >"$log" 2>&1 &&
    apt-get install -q -y --no-install-recommends "${packages[@]}" >>"$log" 2>&1; then
    exit 0
  fi
  tail -n 15 "$log" >&2
fi
echo "system packages: missing ${programs[*]} (install: ${packages[*]}); the tests that need them are skipped"
