"""The ledger of a SNAPT by itself (bench_ledger): killed under load, without power, on a full disk, with numbers and times at their
borders; and what questions about a month of records cost. Where a record is missing, twice or wrong, the bench fails."""
import json

from harness.process import run as run_command

MONTH, QUICK_MONTH = 10_000_000, 100_000
USAGE_S, USER_S, STATEMENT_S, PAGE_S = 2, 0.2, 1, 1
RENEWAL_S = 3600  # TimeoutStartSec of snapt.service
STALL_MS = 1
MOST_LOST = 64 * 1500  # a batch of a loop that had forwarded it and not yet counted


def ask(context, trial, rounds, timeout):
    words = [f"{context.bin}/bench_ledger", trial] + (["--rounds", str(rounds)] if rounds else [])
    if trial == "month":
        words += ["--folder", context.folder]
    return json.loads(run_command(words, timeout=timeout))


def run(context, result):
    killed = ask(context, "kill", context.pick(1000, 100), 900)
    result.row("kill -9 under load, more counted than carried", 0, "bytes", must=0, lower=True, n=killed["kills"], at_seals=killed["at_seals"],
               in_recovery=killed["in_recovery"])
    result.row("kill -9 under load, most lost of a user", killed["most_lost_bytes"], "bytes", must=MOST_LOST, lower=True, n=killed["kills"])
    lost = ask(context, "power", context.pick(500, 50), 900)
    result.row("loss of power, what a checkpoint had", 0, "bytes", must=0, lower=True, n=lost["power_losses"])
    full = ask(context, "full", context.pick(50, 5), 900)
    result.row("disk full, lost", 0, "bytes", must=0, lower=True, n=full["full_disks"], failed_seals=full["failed_seals"])
    for trial in ("wrap", "clock", "zones"):
        ask(context, trial, 0, 900)
    result.row("2^32, 2^53, clock set, days of 23 to 25 h: lost", 0, "bytes", must=0, lower=True)
    seal = ask(context, "seal", context.pick(7, 3), 900)
    named = f"{seal['flows']:,} open flows".replace(",", " ")
    result.row(f"{named}: a loop waits for a seal", seal["seal_waited_ms"], "ms", must=STALL_MS, lower=True, seal_ms=seal["seal_ms"],
               gap_ms=seal["seal_gap_ms"], idle_gap_ms=seal["idle_gap_ms"])
    result.row(f"{named}: a loop waits for a checkpoint", seal["checkpoint_waited_ms"], "ms", must=STALL_MS, lower=True)
    result.row(f"{named}: a loop waits while all are closed", seal["close_waited_ms"], "ms", must=STALL_MS, lower=True)
    records = context.pick(MONTH, QUICK_MONTH)
    month = ask(context, "month", records, 3600)
    named = f"{records:,} records".replace(",", " ")
    result.row(f"{named} without sums: the ledger is renewed", month["renewed_s"], "s", must=RENEWAL_S, lower=True, record_us=month["record_us"])
    result.row(f"{named}: usage", month["usage_s"], "s", must=USAGE_S, lower=True, n=3)
    result.row(f"{named}: usage by user", month["by_user_s"], "s", must=USAGE_S, lower=True, n=3)
    result.row(f"{named}: usage by day", month["by_day_s"], "s", must=USAGE_S, lower=True, n=3)
    result.row(f"{named}: a user's own, by month", month["of_user_s"], "s", must=USER_S, lower=True, n=3)
    result.row(f"{named}: a user's own, by day and class", month["days_of_user_s"], "s", must=USER_S, lower=True, n=3)
    result.row(f"{named}: a statement", month["statement_s"], "s", must=STATEMENT_S, lower=True, n=3)
    result.row(f"{named}: what the web page asks for", month["web_page_s"], "s", must=PAGE_S, lower=True, n=3)
    result.row(f"{named}: a page of 1000 records in the middle", month["page_s"], "s", must=PAGE_S, lower=True, n=3)
    year = f"a user's year of {month['year_records']:,} records".replace(",", " ")
    result.row(f"{year}: usage", month["year_s"], "s", must=USER_S, lower=True, n=3)
    result.row(f"{year}: usage by month", month["months_of_year_s"], "s", must=USER_S, lower=True, n=3)
    result.row(f"{year}: usage by day and class", month["days_of_year_s"], "s", must=USER_S, lower=True, n=3)
