# Evaluation of the logs of tests/support/arrivals.py and chat.py. Lines "TIME BYTES" in $work/LOG, by default $work/arrivals.

have() { tail -n 1 "$work/${1:-arrivals}" 2>/dev/null | cut -d' ' -f2; }
# arrived BYTES [LOG]
arrived() { local bytes; bytes=$(have "${2:-arrivals}") && [ "${bytes:-0}" -gt "$1" ]; }
# chat_is_right LINES : chat.py's client, whose log is $work/chat, has said so many at least, and all were answered right.
chat_is_right() {
    local lines right
    read -r _ lines right < <(tail -n 1 "$work/chat")
    more_than "${lines:-0}" "$1" && equal "$right" "$lines"
}
# longest_gap FROM [LOG] : of its lines' times since then, in seconds; while somebody still writes it, of now, too. The next
# claim speaks of that gap.
longest_gap() {
    local gap from to
    read -r gap from to < <("$python" - "$1" "$work/${2:-arrivals}" "$EPOCHREALTIME" <<'END'
import glob, os, sys
since, log, now = float(sys.argv[1]), sys.argv[2], float(sys.argv[3])
def leads_to(link):
    try:
        return os.readlink(link) == log
    except OSError:
        return False  # that process has ended meanwhile
is_written = any(leads_to(link) for link in glob.glob("/proc/[0-9]*/fd/*"))
times = [since] + [t for t in (float(line.split()[0]) for line in open(log) if line.strip()) if t >= since]
times += [now] * is_written
gap, since, to = max((b - a, a, b) for a, b in zip(times, times[1:]))
print(f"{gap:.3f} {since:.6f} {to:.6f}")
END
    )
    speaks_of "$from" "$to"
    echo "$gap"
}
# longest_silence GAPS COLUMN BOUND_MS : the largest of that column of gaps.py, in ms, and the median. The next claim speaks of
# the longest silence.
longest_silence() {
    local longest median from to
    read -r longest median from to < <(awk -v column="$2" '$1 ~ /^[0-9]/ { print $column, $4, $5 }' "$1" | sort -n |
        awk '{ v[NR] = $1; from = $2; to = $3 } END { if (NR) print v[NR], v[int((NR + 1) / 2)], from, to }')
    speaks_of "${from-}" "${to-}" "$(awk -v ms="$3" 'BEGIN { print ms / 1000 }')"
    echo "${longest:-none} ${median:-none}"
}
# speaks_of_median GAPS COLUMN BOUND_MS : the next claim speaks of the median of that column, and so of the silence in its middle.
speaks_of_median() {
    local from to
    read -r from to < <(awk -v column="$2" '$1 ~ /^[0-9]/ { print $column, $4, $5 }' "$1" | sort -n |
        awk '{ window[NR] = $2 " " $3 } END { print window[int(NR / 2) + 1] }')
    speaks_of "${from-}" "${to-}" "$(awk -v ms="$3" 'BEGIN { print ms / 1000 }')"
}
# lost_at_most LOST MOST FROM : of a call that began then, 50 packets a second (voice.py).
lost_at_most() {
    speaks_of "$3" "$EPOCHREALTIME" "$(awk -v most="$2" 'BEGIN { print (most > 1 ? most : 1) / 50 }')"
    at_most "$1" "$2"
}
# since TIME [TO] : seconds from then to then or now, of which the next claim speaks.
since() {
    local now=${2:-$EPOCHREALTIME}
    speaks_of "$1" "$now"
    awk -v from="$1" -v to="$now" 'BEGIN { printf "%.3f\n", to - from }'
}

# logged_at NAME TEXT : when the process last logged that, since begin_log; by its own clock, since to ask it takes long on a busy
# machine. Nothing and 1: never.
logged_at() {
    local at
    at=$(said "$1" | sed -n "s/^\([^ ]*Z\) .*$2.*/\1/p" | tail -n 1)
    [ -n "$at" ] || return # `date -d ""` is midnight
    date -d "$at" +%s.%N
}
# until_up : how long the first SNAPT took to answer, from cnapt's first attempt on, which it logs; the next claim speaks of that. Nothing without these lines.
until_up() {
    local from to
    from=$(logged_at cnapt 'runs as node') && to=$(logged_at cnapt 'answers; new flows go through the tunnel') && since "$from" "$to"
}

# The server's TCP tries again after its RTO, then each time after twice as long (RFC 6298): when data can pass after some time,
# its first attempt from then on comes before twice that time and one RTO have passed, and the next after twice that. So a
# download is silent until the second of them at most, if a busy machine loses one. silent_since KILLED BACK, `rto` from before
rto_s() { in_ns inet ss -tinH 'sport = :80' | sed -n 's/.* rto:\([0-9.]*\).*/\1/p' | sort -n | tail -n 1 | "$python" -c 'print(float(input()) / 1000)'; }
silent_since() { at_most "$(longest_gap "$1")" "$("$python" -c "print(4 * $2 + 3 * $rto + 0.4)")"; }
