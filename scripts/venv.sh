#!/usr/bin/env bash
# Create a virtualenv and install pinned requirements into it. Does nothing when it is up to date.
#
#   scripts/venv.sh demo    .venv with what `make demo` needs
#   scripts/venv.sh test    .venv with every extra and the tools of development
#   scripts/venv.sh bench   .venv-bench with the packages that benchmarks compare with
#
# PYTHON names the interpreter to use; otherwise the first of the usual names that is new enough.
# uv is used where it is installed, else the interpreter's own venv and pip.
set -euo pipefail
cd "$(dirname "$0")/.."

oldest="3.11"

fail() {
  printf 'venv: %s\n' "$*" >&2
  exit 1
}

is_new_enough() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
  local candidate
  if [ -n "${PYTHON:-}" ]; then
    is_new_enough "$PYTHON" || fail "PYTHON=$PYTHON is missing or older than Python $oldest"
    printf '%s\n' "$PYTHON"
    return
  fi
  for candidate in python3.13 python3.12 python3.11 python3 python; do
    if is_new_enough "$candidate"; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  fail "Python $oldest or newer is needed (found: $(python3 --version 2>&1 || echo none)); install it or name it: make PYTHON=/path/to/python"
}

create() {
  local folder="$1" python
  python="$(find_python)"
  rm -rf "$folder"
  echo "venv: creating $folder with $("$python" --version)"
  if command -v uv >/dev/null 2>&1; then
    uv venv --quiet --no-project --python "$("$python" -c 'import sys; print(sys.executable)')" "$folder"
  else
    "$python" -m venv "$folder" ||
      fail "$python has no working venv module (on Debian: apt-get install python3-venv)"
  fi
}

install() {
  local folder="$1"
  shift
  if command -v uv >/dev/null 2>&1; then
    uv pip install --quiet --python "$folder/bin/python" "$@"
  else
    "$folder/bin/python" -m pip install -qq --disable-pip-version-check --no-input "$@"
  fi
}

# A virtualenv that uv made has no pip of its own.
is_usable() {
  is_new_enough "$1/bin/python" &&
    { command -v uv >/dev/null 2>&1 || "$1/bin/python" -c 'import pip' >/dev/null 2>&1; }
}

# What is installed is recorded by content, so a checkout that only touches dates installs nothing.
is_current() {
  local folder="$1" name="$2"
  is_new_enough "$folder/bin/python" &&
    cmp --silent "requirements/$name.txt" "$folder/installed-$name.txt" &&
    { [ "$name" = bench ] || cmp --silent pyproject.toml "$folder/installed-pyproject.toml"; }
}

set_up() {
  local folder="$1" name="$2"
  is_current "$folder" "$name" && return
  is_usable "$folder" || create "$folder"
  echo "venv: installing requirements/$name.txt into $folder"
  rm -f "$folder/installed-$name.txt"
  install "$folder" --require-hashes --no-deps --requirement "requirements/$name.txt"
  if [ "$name" != bench ]; then
    install "$folder" --no-deps --no-build-isolation --editable .
    cp pyproject.toml "$folder/installed-pyproject.toml"
  fi
  cp "requirements/$name.txt" "$folder/installed-$name.txt"
}

case "${1:-}" in
  # Everything the demo needs is in the test set, in the same versions.
  demo) is_current .venv test || set_up .venv demo ;;
  test) set_up .venv test ;;
  bench) set_up .venv-bench bench ;;
  *) fail "say what to set up: demo, test or bench" ;;
esac
