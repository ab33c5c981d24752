# The package of a build directory; sourced. $package: the file, or the directory that pack makes it of. Sets $work, which goes
# at the end.
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
skip() { echo "skipped: $*"; exit 77; }
command -v dpkg-deb >/dev/null || skip "needs dpkg-deb"
work=$(mktemp -d "${TMPDIR:-/var/tmp}/continuo-package.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
pack() {
    [ -d "$package" ] || return 0
    (cd "$package" && cpack -G DEB -B "$work/out") >"$work/cpack.log" 2>&1 || { cat "$work/cpack.log"; exit 1; }
    package=$(ls "$work"/out/*.deb)
}
