#!/bin/sh
# Fails when a tracked source file is not as clang-format 14 would leave it.
set -eu
cd "$(git rev-parse --show-toplevel)"
git ls-files '*.cpp' '*.hpp' | xargs -r clang-format-14 --dry-run -Werror
echo "format: clean"
