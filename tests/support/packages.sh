# Sourced by ./test and ./demo: installs what is missing, configures, and runs long steps with a sign of life.

# need_packages PACKAGE... : installs by apt-get what is not there.
need_packages() {
    local missing=() package
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        for package in g++ cmake ninja pkg-config git python3; do command -v "$package" >/dev/null || missing+=("$package"); done
        [ ${#missing[@]} -eq 0 ] && return
        echo "No apt-get here, and these tools are missing: ${missing[*]}. README.md lists what is needed; install it by hand." >&2
        exit 1
    fi
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return
    if [ "$(id -u)" != 0 ]; then
        echo "These packages are missing, and only root may install them: ${missing[*]}" >&2
        echo "Run this as root, or first: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    step "installing ${#missing[@]} packages" install_missing "${missing[@]}" || exit 1
}

install_missing() {
    apt-get update -qq &&
        apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 "$@"
}

# configure_preset PRESET [ARGUMENTS...] : anew where the build folder is that of a tree that lay elsewhere, which CMake refuses.
configure_preset() {
    local folder=build/$1 source
    source=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$folder/CMakeCache.txt" 2>/dev/null) || source=
    if [ -n "$source" ] && ! [ "$source" -ef . ]; then
        echo "the build folder is of $source: made anew"
        rm -rf "$folder"
    fi
    cmake --preset "$@"
}

# step TEXT COMMAND... : quiet; a line at the beginning and every 20 s, the end of its log when it fails.
step_logs=${step_logs:-build/logs}
step_worker=
stop_step() {
    [ -z "$step_worker" ] || kill -TERM -- "-$step_worker" 2>/dev/null
    wait 2>/dev/null
}
step() {
    local text=$1 log worker status began=$SECONDS said=$SECONDS
    shift
    mkdir -p "$step_logs"
    log=$step_logs/$(echo "$text" | tr -cs 'a-zA-Z0-9' '-' | sed 's/-$//').log
    echo "== $text"
    set -m  # a process group of its own, which stop_step can end as a whole
    "$@" >"$log" 2>&1 </dev/null &
    worker=$! step_worker=$!
    set +m
    while kill -0 "$worker" 2>/dev/null; do
        sleep 0.2
        if [ $((SECONDS - said)) -ge 20 ]; then
            said=$SECONDS
            echo "   $((SECONDS - began)) s: $(tail -n 1 "$log" | cut -c1-100)"
        fi
    done
    wait "$worker"
    status=$?
    step_worker=
    [ $((SECONDS - began)) -lt 10 ] || echo "   took $((SECONDS - began)) s"
    if [ "$status" -ne 0 ] && [ -z "${step_may_fail-}" ]; then
        tail -n 30 "$log"
        echo "failed: $text (all of it is in $log)" >&2
    fi
    return "$status"
}
