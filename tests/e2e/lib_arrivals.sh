# What the logs of tests/support/arrivals.py and chat.py say. Lines "TIME BYTES" in $work/LOG, by default $work/arrivals.

have() { tail -n 1 "$work/${1:-arrivals}" 2>/dev/null | cut -d' ' -f2; }
# arrived BYTES [LOG]
arrived() { local bytes; bytes=$(have "${2:-arrivals}") && [ "${bytes:-0}" -gt "$1" ]; }
# chat_is_right LINES : chat.py's client, whose log is $work/chat, has said so many at least, and all were answered right.
chat_is_right() {
    local lines right
    read -r _ lines right < <(tail -n 1 "$work/chat")
    more_than "${lines:-0}" "$1" && equal "$right" "$lines"
}
# longest_gap FROM [LOG] : of its lines' times since then, in seconds; while somebody still writes it, of now, too.
longest_gap() {
    "$python" - "$1" "$work/${2:-arrivals}" "$EPOCHREALTIME" <<'END'
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
print(round(max(b - a for a, b in zip(times, times[1:])), 3))
END
}
since() { "$python" -c 'import sys; print(round(float(sys.argv[2]) - float(sys.argv[1]), 3))' "$1" "$EPOCHREALTIME"; }

# The server's TCP tries again after its RTO, then each time after twice as long (RFC 6298): when data can pass after some time,
# its first attempt from then on comes before twice that time and one RTO have passed, and the next after twice that. So a
# download is silent until the second of them at most, if a busy machine loses one. silent_since KILLED BACK, `rto` from before
rto_s() { in_ns inet ss -tinH 'sport = :80' | sed -n 's/.* rto:\([0-9.]*\).*/\1/p' | sort -n | tail -n 1 | "$python" -c 'print(float(input()) / 1000)'; }
silent_since() { at_most "$(longest_gap "$1")" "$("$python" -c "print(4 * $2 + 3 * $rto + 0.4)")"; }
