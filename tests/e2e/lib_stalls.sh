# Times in which the machine did not run, measured beside every test by machine_stalls, and the claims that they make void.
#
# A claim on a silence, a loss or a time speaks of a window: `since`, `longest_gap` and a wait_for that ends in vain note it,
# elsewhere `speaks_of` does just before the claim. A claim that fails is void where the machine stalled for more than a
# tenth of the claim's bound within its window: neither failed nor held, the test is run again (tests/support/run_again.py).
# One that holds in spite of a stall holds. What changes the network in between counts as a stall for as long as it takes
# (takes_effect).
exit_void=75  # EX_TEMPFAIL: no claim failed, but some are void

watch_stalls() {
    : >"$work/stalls"
    command -v machine_stalls >/dev/null || return 0  # ./demo has none
    machine_stalls >>"$work/stalls" &
    pid_of[stalls]=$!
}

# speaks_of FROM TO [SECONDS] : the window of the next claim, and its bound where at_most does not say it in seconds.
speaks_of() { echo "$1 $2 ${3-}" >"$work/window"; }
bound_is() { echo "$1" >"$work/bound"; }
forget_window() { rm -f "$work/window" "$work/bound"; }

# stalled FROM TO : seconds in between in which a core did not run, of the core that stalled longest; or commands took effect.
stalled() {
    awk -v from="$1" -v to="$2" '
        { begin = $1 > from ? $1 : from; end = $2 < to ? $2 : to; if (end > begin) sum[$3] += end - begin }
        END { for (core in sum) if (sum[core] > most) most = sum[core]; printf "%.3f\n", most }' "$work/stalls"
}
# void_by : says for how long the machine stalled, if that makes the claim void that has just failed.
void_by() {
    local from to bound stall
    [ -s "$work/window" ] || return
    read -r from to bound <"$work/window"
    [ -n "$to" ] || return
    [ -n "$bound" ] || bound=$(cat "$work/bound" 2>/dev/null) || return
    compare "$bound" ">" 0 || return  # of what did not happen at all
    stall=$(stalled "$from" "$to")
    compare "$stall" ">" "$(awk -v bound="$bound" 'BEGIN { print bound / 10 }')" || return
    echo "the machine did not run, or a change was not made, for $stall s of $(awk -v from="$from" -v to="$to" 'BEGIN { printf "%.3f", to - from }') s; bound $bound s"
}
show_stalls() {
    local count
    count=$(grep -cv ' command$' "$work/stalls")
    [ "$count" -eq 0 ] || echo "--- the machine did not run $count times for more than 20 ms, $(stalled 0 "$EPOCHREALTIME") s in all"
    awk '$3 == "command" && $2 - $1 > 0.5 { printf "--- at %s a change of the network took %.3f s\n", $1, $2 - $1 }' "$work/stalls"
}

# takes_effect COMMAND... : changes the network, as the next claims suppose. To enter a namespace or to change its rules may take
# seconds beside other tests, and when within them the change came is not known.
takes_effect() {
    local from=$EPOCHREALTIME status=0
    "$@" || status=$?
    echo "$from $EPOCHREALTIME command" >>"$work/stalls"
    return "$status"
}
