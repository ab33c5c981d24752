# What the tests of the package begin with; sourced. $package: the file, made of a build directory if that was given.
# Sets $work, which goes at the end, and makes $work/root a minimal Debian with what the package depends on.
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
skip() { echo "skipped: $*"; exit 77; }
[ "$(id -u)" = 0 ] || skip "needs root"
for tool in debootstrap dpkg-deb; do command -v $tool >/dev/null || skip "needs $tool"; done

work=$(mktemp -d "${TMPDIR:-/var/tmp}/continuo-package.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
if [ -d "$package" ]; then
    (cd "$package" && cpack -G DEB -B "$work/out") >"$work/cpack.log" 2>&1 || { cat "$work/cpack.log"; exit 1; }
    package=$(ls "$work"/out/*.deb)
fi

# make_system PACKAGES : these and the package's dependencies, separated by commas.
make_system() {
    local suite mirror depends
    . /etc/os-release
    suite=${VERSION_CODENAME:-bookworm}
    mirror=${MIRROR-$(sed -n 's/^deb .*\(https\{0,1\}:[^ ]*\) .*/\1/p; s/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)}
    depends=$(dpkg-deb -f "$package" Depends | sed 's/([^)]*)//g; s/|[^,]*//g; s/ //g')
    echo "== a minimal $suite"
    debootstrap --variant=minbase --include="$depends,$1" "$suite" "$work/root" ${mirror:+"$mirror"} \
        >"$work/debootstrap.log" 2>&1 || { tail -n 5 "$work/debootstrap.log"; skip "debootstrap cannot make one here"; }
}
