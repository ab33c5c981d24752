#!/bin/sh
# clang-tidy over the source files outside tests (GoogleTest's macros are not ours to lint): those of the change that is checked
# out, of all since COMMIT (--since), or all (--all). A change begins where its branch left its upstream or main; on main itself
# it is the last commit. Changes that are not committed yet belong to it. Files in which only comments changed do not.
# Warning options that only g++ knows are no findings. The static analyzer goes through functions of a change in its mode
# "shallow", a fifth of the time, and with --all in its usual one.
# usage: tests/check_tidy.sh PRESET [--all | --since COMMIT]
set -eu
cd "$(git rev-parse --show-toplevel)"
preset=${1##*/}
begin_of_change() {
    for branch in '@{upstream}' origin/main main; do
        base=$(git merge-base HEAD "$branch" 2>/dev/null) || continue
        [ "$base" = "$(git rev-parse HEAD)" ] || { echo "$base"; return; }
    done
    # A merge that changes nothing, as one that keeps a branch, is no change.
    base=HEAD~1
    while git rev-parse --verify --quiet "$base" >/dev/null; do
        git diff --quiet "$base" HEAD || { git rev-parse "$base"; return; }
        base=$base~1
    done
    git hash-object -t tree /dev/null
}
# A source without comments, except those that suppress findings.
code() {
    text=$(cat)
    printf '%s\n' "$text" | g++ -fpreprocessed -dD -E -P -x c++ - 2>/dev/null
    printf '%s\n' "$text" | grep -o 'NOLINT.*' || true
}
case "${2-}" in
    --all) files=$(git ls-files '*.cpp' ':!tests') ;;
    --since) base=$(git merge-base HEAD "$3") ;;
    *) base=$(begin_of_change) ;;
esac
[ -z "${base-}" ] || files=$(git diff --name-only --diff-filter=d "$base" -- '*.cpp' ':!tests')
[ -n "$files" ] || { echo "tidy: no changed source file"; exit 0; }
# Without the precompiled header, which g++ makes for g++ alone. Files that are compiled as one are checked as one: most of the time
# goes to their headers. Not with the whole analyzer, which would take what other files call for their part alone.
database=$(mktemp -d)
trap 'rm -rf "$database"' EXIT
unity=ON
[ -n "${base-}" ] || unity=OFF
cmake --preset "$preset" -B "$database" -DCONTINUO_PRECOMPILE=OFF -DCONTINUO_UNITY=$unity >"$database/log" 2>&1 ||
    { cat "$database/log"; exit 1; }
set --
for file in $files; do
    [ -z "${base-}" ] || [ "$(git show "$base:$file" 2>/dev/null | code)" != "$(code <"$file")" ] || continue
    set -- "$@" "$file"
done
[ $# -gt 0 ] || { echo "tidy: no changed source file"; exit 0; }
analyzer='--extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=mode=shallow'
[ -n "${base-}" ] || analyzer=
# shellcheck disable=SC2086  # several words
tests/support/tidy_units.py "$database" --extra-arg=-Wno-unknown-warning-option $analyzer -- "$@"
