# Common setup of the package tests; sourced. $package: the file, made from a build directory if that was given.
# Sets $work, which goes at the end, and makes $work/root a minimal Debian with what the package depends on.
[ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 77; }
. "$(dirname "${BASH_SOURCE[0]}")/packed.sh"
command -v debootstrap >/dev/null || skip "needs debootstrap"
pack

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

# boot_and_run SCRIPT IMAGE_SIZE LONGEST_S [QEMU_OPTION...] : boots it on its own kernel in an emulated machine, where systemd runs the
# script, whose last line says how many of its claims held; then it is switched off. Needs systemd-sysv and a kernel in it.
boot_and_run() {
    local script=$1 size=$2 longest_s=$3 root=$work/root
    shift 3
    cp "$script" "$root/booted.sh"
    cat >"$root/etc/systemd/system/booted.service" <<'END'
[Unit]
After=basic.target
[Service]
Type=oneshot
ExecStart=/bin/bash -c 'exec /bin/bash /booted.sh >/dev/ttyS1 2>&1'
ExecStopPost=/bin/systemctl --no-block poweroff
END
    mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
    ln -s ../booted.service "$root/etc/systemd/system/multi-user.target.wants/"
    truncate -s "$size" "$work/image"
    mkfs.ext4 -q -d "$root" "$work/image" || exit 1
    echo "== booted"
    timeout "$longest_s" qemu-system-x86_64 -m 1024 -smp 2 -display none -monitor none -no-reboot -net none \
        -device virtio-rng-pci "$@" -serial "file:$work/console" -serial "file:$work/claims" \
        -drive "file=$work/image,if=virtio,format=raw" -kernel "$root"/boot/vmlinuz-* -initrd "$root"/boot/initrd.img-* \
        -append "root=/dev/vda rw console=ttyS0 quiet net.ifnames=0"
    tr -d '\r' <"$work/claims"
    grep -q ' 0 failed$' <(tr -d '\r' <"$work/claims") || { tail -n 20 "$work/console"; exit 1; }
}
