#!/usr/bin/env bash
# Runs an end-to-end script for ctest: check_closing_line.sh SCRIPT. One that ends with 0 passes only if its last line is "N held,
# 0 failed", which `finish` of tests/e2e/lib.sh prints: a script that a program replaced (exec), or that left in the middle, has
# not made its last claims. Every other exit code is the script's own.
set -uo pipefail
"$@" | {
    trap '' INT TERM HUP # what the script prints while it clears up passes
    last=
    while IFS= read -r line || [ -n "$line" ]; do
        printf '%s\n' "$line"
        last=$line
    done
    [[ $last =~ ^[1-9][0-9]*\ held,\ 0\ failed$ ]]
}
codes=("${PIPESTATUS[@]}")
# Processor time of the script and all it has started: what PROCESSORS of tests/e2e/CMakeLists.txt goes by.
read -r stat </proc/$$/stat
# shellcheck disable=SC2086  # fields
set -- ${stat##*) }
# The last line of one that skips is its reason (count_results.py).
[ "${codes[0]}" -eq 77 ] || echo "      processor: $(((${14} + ${15}) / 100)) s" >&2
if [ "${codes[0]}" -eq 0 ] && [ "${codes[1]}" -ne 0 ]; then
    echo 'FAIL  the script ends with its line "N held, 0 failed"'
    exit 1
fi
exit "${codes[0]}"
