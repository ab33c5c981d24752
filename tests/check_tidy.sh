#!/bin/sh
# clang-tidy over the source files outside tests (GoogleTest's macros are not ours to lint) changed by the last commit, or over all (--all).
# Warning options that only g++ knows are no findings.
# usage: tests/check_tidy.sh BUILD_DIR [--all]
set -eu
cd "$(git rev-parse --show-toplevel)"
build=$1
if [ "${2-}" = --all ]; then
    files=$(git ls-files '*.cpp' ':!tests')
else
    base=$(git rev-parse --verify --quiet 'HEAD~1' || git hash-object -t tree /dev/null)
    files=$(git diff --name-only --diff-filter=d "$base" -- '*.cpp' ':!tests')
fi
count=0
for file in $files; do
    grep -q "\"file\": \".*/$file\"" "$build/compile_commands.json" && set -- "$@" "$file" && count=$((count + 1)) || :
done
shift
[ "${1-}" = --all ] && shift || :
[ "$count" -gt 0 ] || { echo "tidy: no changed source file"; exit 0; }
# Without the precompiled header: g++'s is none to clang, and a file has to include what it uses.
database=$(mktemp -d)
trap 'rm -rf "$database"' EXIT
sed 's/ -include [^ ]*cmake_pch\.hxx//' "$build/compile_commands.json" >"$database/compile_commands.json"
printf '%s\n' "$@" | xargs -P 2 -n 4 clang-tidy-14 --quiet --extra-arg=-Wno-unknown-warning-option -p "$database" 2>/dev/null
echo "tidy: $count files clean"
