// The tables of ledger.db; that of sums is in usage_sums.hpp. Identity and version are in SQLite's
// own header (application_id, user_version), so that a foreign file is never touched. A user is an
// account with a name. Rows belong to the account, whose id is never reused; the name may be.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace continuo::snapt::store {

inline constexpr int64_t kApplicationId = 0x43544E4C;  // "CTNL"
inline constexpr int64_t kSchemaVersion = 14;

// Images that open_flow may hold, by the version that began to write them: what an image lacks at
// its end is 0. Each form has what the one before lacks: undelivered_down, tunnel_up and
// tunnel_down, jitter_us_sum. Some programs of version 10 wrote the last form. A longer image needs
// a version of its own, so that an earlier program says that it is too old for it.
struct SlotImageForm {
    int64_t since_version;
    size_t bytes;
};
inline constexpr std::array<SlotImageForm, 4> kSlotImageForms = {
    {{1, 184}, {7, 192}, {8, 208}, {11, 216}}};
static_assert(kSlotImageForms.back().since_version <= kSchemaVersion);

inline constexpr const char* kSchemaSql = R"sql(
CREATE TABLE state(k TEXT PRIMARY KEY, v INTEGER NOT NULL) STRICT;
INSERT INTO state(k, v) VALUES('epoch', 0), ('next_seq', 0);

-- Associations that may carry traffic, committed before they do; live slots refer to `no`, unique in the epoch.
CREATE TABLE open_session(
  no INTEGER PRIMARY KEY, session_id BLOB NOT NULL, user_id TEXT NOT NULL, cnapt_id TEXT NOT NULL,
  sharer_id TEXT NOT NULL, t_open INTEGER NOT NULL, account_id INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE open_app(
  session_no INTEGER NOT NULL, tag INTEGER NOT NULL, name TEXT NOT NULL,
  PRIMARY KEY(session_no, tag)) STRICT, WITHOUT ROWID;
-- Costs of ended sessions outside their flows: further copies, control, keepalives.
CREATE TABLE session_record(
  epoch INTEGER NOT NULL, no INTEGER NOT NULL, session_id BLOB NOT NULL, user_id TEXT NOT NULL,
  cnapt_id TEXT NOT NULL, sharer_id TEXT NOT NULL, t_open INTEGER NOT NULL, t_close INTEGER NOT NULL,
  tun_up INTEGER NOT NULL, tun_down INTEGER NOT NULL, account_id INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY(epoch, no)) STRICT, WITHOUT ROWID;
-- Slot images: what was put into records, and the latest that was saved.
CREATE TABLE open_flow(
  flow_id INTEGER PRIMARY KEY, session_no INTEGER NOT NULL, cls INTEGER NOT NULL, proto INTEGER NOT NULL,
  t_open INTEGER NOT NULL, t_sealed INTEGER NOT NULL, sealed BLOB NOT NULL, ckpt BLOB NOT NULL,
  closed INTEGER NOT NULL) STRICT;
-- `user_id` is the name that the account had. The hash is over `account_id` where the flag says so, and over
-- `undelivered`, and `tun_up` with `tun_down`, where they are no null.
CREATE TABLE usage_record(
  snapt_id TEXT NOT NULL, epoch INTEGER NOT NULL, seq INTEGER NOT NULL,
  user_id TEXT NOT NULL, session_id BLOB NOT NULL, cnapt_id TEXT NOT NULL, sharer_id TEXT NOT NULL,
  flow_id INTEGER NOT NULL, cls INTEGER NOT NULL, proto INTEGER NOT NULL,
  app TEXT, dport INTEGER, dst TEXT,
  t_start INTEGER NOT NULL, t_end INTEGER NOT NULL, active_us INTEGER NOT NULL,
  pay_up INTEGER NOT NULL, pay_down INTEGER NOT NULL, inner_up INTEGER NOT NULL, inner_down INTEGER NOT NULL,
  pkt_up INTEGER NOT NULL, pkt_down INTEGER NOT NULL, pre INTEGER NOT NULL, post INTEGER NOT NULL,
  delay_us INTEGER, delay_max_us INTEGER, delay_src INTEGER, jitter_us INTEGER,
  handovers INTEGER NOT NULL DEFAULT 0, lost_pkts INTEGER,
  cause INTEGER NOT NULL, flags INTEGER NOT NULL DEFAULT 0, sha BLOB NOT NULL,
  account_id INTEGER NOT NULL DEFAULT 0, undelivered INTEGER, tun_up INTEGER, tun_down INTEGER,
  PRIMARY KEY(snapt_id, epoch, seq)) STRICT, WITHOUT ROWID;
CREATE INDEX usage_account_time ON usage_record(user_id, account_id, t_end);
CREATE INDEX usage_time ON usage_record(t_end);
-- `mono`: microseconds since boot, which go on when the wall clock is set.
CREATE TABLE event(
  id INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL, detail TEXT NOT NULL, mono INTEGER) STRICT;

CREATE TABLE user(
  user_id TEXT PRIMARY KEY, created INTEGER NOT NULL, disabled INTEGER NOT NULL,
  account_id INTEGER NOT NULL UNIQUE) STRICT;
-- Keys of removed accounts stay without their secret, so that a key id is not used again.
CREATE TABLE credential(
  account_id INTEGER NOT NULL, key_id TEXT NOT NULL, secret BLOB NOT NULL, created INTEGER NOT NULL,
  disabled INTEGER NOT NULL, revoked INTEGER, device TEXT NOT NULL DEFAULT '', seen INTEGER, expires INTEGER,
  PRIMARY KEY(account_id, key_id)) STRICT;
-- Rows are never deleted. Without `credit_limit_ud` no balance is too low. `on_exhausted`: notify, throttle or stop.
CREATE TABLE account(
  account_id INTEGER PRIMARY KEY AUTOINCREMENT, user_id TEXT NOT NULL, removed INTEGER, plan_id INTEGER,
  status TEXT, quota_bytes INTEGER, quota_period TEXT, zone TEXT NOT NULL DEFAULT 'UTC',
  credit_limit_ud INTEGER, on_exhausted TEXT NOT NULL DEFAULT 'notify', throttle_bits_per_s INTEGER) STRICT;
CREATE INDEX account_user ON account(user_id);
CREATE TABLE lease(
  account_id INTEGER NOT NULL, user_id TEXT NOT NULL, node TEXT NOT NULL, address_index INTEGER NOT NULL UNIQUE,
  ipv4 TEXT, ipv6 TEXT, expires INTEGER NOT NULL, node_id BLOB, PRIMARY KEY(account_id, node)) STRICT;
-- Price plans, each revision as the file that was added. Never changed.
CREATE TABLE plan(
  plan_id INTEGER NOT NULL, rev INTEGER NOT NULL, name TEXT NOT NULL, valid_from INTEGER NOT NULL,
  toml TEXT NOT NULL, sha BLOB NOT NULL, PRIMARY KEY(plan_id, rev)) STRICT;
-- Entries booked for accounts, in micro-denarii. Entries are only added; sha is over the entry and the one before.
CREATE TABLE ledger(
  entry_id INTEGER PRIMARY KEY, account_id INTEGER NOT NULL, user_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK(kind IN('usage','discount','topup','adjust','refund','reward')),
  amount_ud INTEGER NOT NULL, ref TEXT NOT NULL UNIQUE, at INTEGER NOT NULL, note TEXT NOT NULL,
  actor TEXT NOT NULL, sha BLOB NOT NULL) STRICT;
CREATE INDEX ledger_account ON ledger(account_id);
CREATE TRIGGER ledger_is_not_changed BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'entries are only added'); END;
CREATE TRIGGER ledger_is_not_shortened BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'entries are only added'); END;
-- Sum of the entries of each account, maintained by triggers.
CREATE TABLE balance(account_id INTEGER PRIMARY KEY, balance_ud INTEGER NOT NULL, entries INTEGER NOT NULL) STRICT;
CREATE TRIGGER ledger_is_summed AFTER INSERT ON ledger BEGIN
  INSERT INTO balance(account_id, balance_ud, entries) VALUES(NEW.account_id, NEW.amount_ud, 1)
    ON CONFLICT DO UPDATE SET balance_ud = balance_ud + excluded.balance_ud, entries = entries + 1; END;
-- Plans that hold from a time on: for an account, or for all that have none of their own (0). Plan 0 is none, -1 that
-- of the others. Only added.
CREATE TABLE plan_use(
  use_id INTEGER PRIMARY KEY, account_id INTEGER NOT NULL, plan_id INTEGER NOT NULL, valid_from INTEGER NOT NULL,
  at INTEGER NOT NULL, actor TEXT NOT NULL) STRICT;
-- The last record of each SNAPT that is booked; all before it are. With `until_seq` so are those up to it of accounts
-- and quarters up to (account_id, quarter).
CREATE TABLE booked(
  snapt_id TEXT PRIMARY KEY, epoch INTEGER NOT NULL, seq INTEGER NOT NULL, until_seq INTEGER,
  account_id INTEGER NOT NULL, quarter INTEGER NOT NULL) STRICT, WITHOUT ROWID;
-- Charges for the records of an account and class that are numbered first_seq to last_seq and ended in a quarter of an
-- hour, with the entries they are booked by. `replaces`: the charge that this one stands for since a re-rating. `fault`:
-- why it costs nothing although a plan is in force. Only added.
CREATE TABLE charge(
  charge_id INTEGER PRIMARY KEY, account_id INTEGER NOT NULL, snapt_id TEXT NOT NULL, epoch INTEGER NOT NULL,
  first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, quarter INTEGER NOT NULL, cls INTEGER NOT NULL,
  plan_id INTEGER NOT NULL, plan_rev INTEGER NOT NULL, records INTEGER NOT NULL,
  pay_up INTEGER NOT NULL, pay_down INTEGER NOT NULL, pre INTEGER NOT NULL, post INTEGER NOT NULL,
  gross_ud INTEGER NOT NULL, discount_ud INTEGER NOT NULL, entry_id INTEGER, discount_id INTEGER,
  replaces INTEGER UNIQUE, fault TEXT) STRICT;
CREATE INDEX charge_account ON charge(account_id, quarter);
CREATE INDEX charge_fault ON charge(quarter) WHERE fault IS NOT NULL;
CREATE TRIGGER charge_is_not_changed BEFORE UPDATE ON charge BEGIN SELECT RAISE(ABORT, 'charges are only added'); END;
CREATE TRIGGER charge_is_not_removed BEFORE DELETE ON charge BEGIN SELECT RAISE(ABORT, 'charges are only added'); END;
-- What usage costs at a SNAPT, in permille of the plan's price: from an epoch on, which is a run, until another follows.
-- Before the first it is 1000. Only added.
CREATE TABLE snapt_price(
  snapt_id TEXT NOT NULL, epoch INTEGER NOT NULL, price_permille INTEGER NOT NULL,
  PRIMARY KEY(snapt_id, epoch)) STRICT, WITHOUT ROWID;
CREATE TRIGGER snapt_price_is_not_changed BEFORE UPDATE ON snapt_price BEGIN SELECT RAISE(ABORT, 'prices are only added'); END;
CREATE TRIGGER snapt_price_is_not_removed BEFORE DELETE ON snapt_price BEGIN SELECT RAISE(ABORT, 'prices are only added'); END;
)sql";

}  // namespace continuo::snapt::store
