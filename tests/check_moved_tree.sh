#!/usr/bin/env bash
# Fails when a tree that was moved with its build folder is not configured anew, or one that was not is.
set -euo pipefail
. "$(cd "$(dirname "$0")" && pwd)/support/packages.sh"
work=$(mktemp -d "${TMPDIR:-/tmp}/continuo-moved.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; exit 1; }
mkdir "$work/one"
cd "$work/one"
printf 'cmake_minimum_required(VERSION 3.20)\nproject(moved NONE)\n' >CMakeLists.txt
cat >CMakePresets.json <<'END'
{"version": 3, "configurePresets": [{"name": "dev", "generator": "Ninja", "binaryDir": "${sourceDir}/build/dev"}]}
END
configure_preset dev >/dev/null
touch build/dev/old
configure_preset dev >/dev/null
[ -e build/dev/old ] || fail "a tree that was not moved was configured anew"
cd ..
mv one two
cd two
configure_preset dev || fail "a tree that was moved cannot be configured"
[ ! -e build/dev/old ] || fail "a tree that was moved keeps its build folder"
cd ..
cp -r two three
cd three
configure_preset dev || fail "a tree that was copied cannot be configured"
grep -q "^CMAKE_HOME_DIRECTORY:INTERNAL=.*/three$" build/dev/CMakeCache.txt || fail "it is configured for the other one"
