#!/bin/sh
# Creates $VENV and installs metasched with one extra into it; a failure is one sentence, the details are in a log.
# Usage: PYTHON=python3 VENV=.venv sh tools/install.sh EXTRA
set -eu
extra=$1
log=$VENV/install.log

fail() {
  printf 'metasched: %s\n' "$1" >&2
  exit 2
}

command -v "$PYTHON" >/dev/null 2>&1 ||
  fail "no '$PYTHON' on this machine; install Python 3.11 to 3.13, or name one: make PYTHON=/path/to/python3.12"
found=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
  fail "'$PYTHON' does not run; name another Python: make PYTHON=/path/to/python3.12"
case $found in
  3.11 | 3.12 | 3.13) ;;
  *) fail "needs Python 3.11 to 3.13, but '$PYTHON' is $found; name another one: make PYTHON=/path/to/python3.12" ;;
esac

if [ ! -x "$VENV/bin/python" ]; then
  "$PYTHON" -m venv "$VENV" >/dev/null 2>&1 || {
    rm -rf "$VENV"
    fail "'$PYTHON -m venv' failed; install the venv module of your Python (Debian, Ubuntu: apt install python3-venv)"
  }
fi

printf 'Installing metasched[%s] into %s ...\n' "$extra" "$VENV"
"$VENV/bin/python" -m pip install --disable-pip-version-check --retries 2 -e ".[$extra]" >"$log" 2>&1 || {
  if grep -qiE 'connection|network|name resolution|timed out|no matching distribution' "$log"; then
    fail "could not fetch packages; is the network up and the package registry reachable? Details: $log"
  fi
  fail "the installation failed; the last lines of $log say why"
}
