# Sourced by tests that type what a document says: blocks of a document, and machines to type them on (namespaces for the
# network, mounts and processes each). `document` is the file that blocks are taken from.
source_tree=$(cd "$lib_dir/../.." && pwd)
document=$source_tree/README.md

# block HEADING NUMBER : the lines of that block below the heading, those of its parts included.
# block HEADING count : how many there are.
block() {
    "$python" - "$document" "$1" "$2" <<'END'
import re, sys
path, heading, number = sys.argv[1:]
text = open(path).read()
begin = re.search(rf"^(##+) {re.escape(heading)}\n", text, re.M)
if not begin:
    sys.exit(f"{path} has no heading {heading!r}")
end = re.compile(rf"^#{{2,{len(begin[1])}}} ", re.M).search(text, begin.end())
part = text[begin.end():end.start() if end else len(text)]
blocks = re.findall(r"^```[a-z]*\n(.*?)^```$", part, re.M | re.S)
if number == "count":
    print(len(blocks))
elif len(blocks) < int(number):
    sys.exit(f"{path} has {len(blocks)} blocks below {heading!r}")
else:
    sys.stdout.write(blocks[int(number) - 1])
END
}

# --- Machines

shims=
make_shims() {
    shims=$work/shims
    mkdir "$shims"
    cat >"$shims/apt-get" <<'END'
#!/bin/sh
[ "$1" = install ] || { echo "apt-get: not stood in for: $*"; exit 1; }
shift
for package in "$@"; do
    case $package in -*) continue ;; esac
    dpkg-query -W -f '${Status}\n' "$package" 2>/dev/null | grep -q '^install ok' || { echo "not installed by ./test: $package"; exit 1; }
done
END
    cat >"$shims/cmake" <<END
#!/bin/sh
case "\$1 \$2" in
    "--preset release") grep -q '"name": "release"' CMakePresets.json ;;
    "--build build/release") : ;;
    "--install build/release") exec $(command -v cmake) --install "${CONTINUO_BIN:?}/.." ;;
    *) echo "cmake: not stood in for: \$*"; exit 1 ;;
esac
END
    chmod +x "$shims"/*
}

# new_machine NAME... : with system folders of its own; what is written there is in memory.
new_machine() {
    local name
    for name in "$@"; do
        mkdir "$work/$name"
        # shellcheck disable=SC2016  # the inner shell expands it
        spawn "$name" "machine-$name" unshare -m --propagation private -p -f --mount-proc --kill-child sh -c '
            mount -t tmpfs tmpfs "$0" || exit 1
            for folder in etc usr/local var root; do
                mkdir -p "$0/$folder/upper" "$0/$folder/work" &&
                    mount -t overlay overlay -o "lowerdir=/$folder,upperdir=$0/$folder/upper,workdir=$0/$folder/work" "/$folder" || exit 1
            done
            mount -t tmpfs tmpfs /run && rm -rf /etc/continuo /var/lib/cnapt /var/lib/snapt && touch "$0/ready" && exec sleep infinity' "$work/$name"
        wait_for 10 is_made "$name" || { show_logs; echo "cannot make the machine $name"; exit 1; }
    done
}

# The machine's first process, seen from here. The shell that becomes unshare has passing children before, so a child is
# the machine's only when its folders are there.
declare -A first_of=()
is_made() { first_of[$1]=$(pgrep -P "${pid_of[machine-$1]}") && on "$1" test -e "$work/$1/ready"; }
# on NAME COMMAND...
on() {
    local name=$1
    shift
    # shellcheck disable=SC2016  # the inner shell expands it
    nsenter --target "${first_of[$name]}" --mount --net --pid \
        env -i HOME=/root LC_ALL=C PATH="$shims:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
        sh -c 'cd "$0" && exec "$@"' "${folder:-/root}" "$@"
}
# type_on NAME : what standard input says, in a shell that ends with the first error.
type_on() {
    local name=$1
    cat >"$work/$name.typed"
    on "$name" bash -euo pipefail -c "$(cat "$work/$name.typed")" </dev/null >"$work/$name.said" 2>>"$work/$name.log" &&
        cat "$work/$name.said"
}
said() { grep -qE -- "$2" "$work/$1.said" || { cat "$work/$1.said"; return 1; }; }
# carry FROM TO FILE : by a way that keeps it secret.
carry() { on "$1" cat "$3" | on "$2" sh -c "umask 077; cat >'$3'"; }

install_on() { document=$source_tree/README.md block "Build and install" 1 | folder=$source_tree type_on "$1"; }
# type_block MACHINE HEADING NUMBER [SED-SCRIPT] : the script changes what the text says is to be changed.
type_block() { block "$2" "$3" | sed "${4-}" | type_on "$1"; }
# end_program MACHINE NAME : as a user would, by `kill`.
end_program() { on "$1" sh -c "kill \$(pidof $2)" && wait_for 10 not_on "$1" pidof "$2"; }
not_on() { ! on "$@"; }
