// Statements that upgrade a ledger.db of an earlier version to the tables of schema.hpp. Released
// text is never changed.
#pragma once

#include "snapt/store/schema.hpp"
#include "snapt/store/usage_sums.hpp"

#include <array>

namespace continuo::snapt::store {

// To version 4. A name with rows older than its user, or without a user, belongs to an account that
// was removed, when its last row ends. Other rows are the user's.
inline constexpr const char* kAccountsSql = R"sql(
ALTER TABLE user RENAME TO user_3;
ALTER TABLE credential RENAME TO credential_3;
ALTER TABLE account RENAME TO account_3;
ALTER TABLE lease RENAME TO lease_3;
CREATE TABLE user(
  user_id TEXT PRIMARY KEY, created INTEGER NOT NULL, disabled INTEGER NOT NULL,
  account_id INTEGER NOT NULL UNIQUE) STRICT;
CREATE TABLE credential(
  account_id INTEGER NOT NULL, key_id TEXT NOT NULL, secret BLOB NOT NULL, created INTEGER NOT NULL,
  disabled INTEGER NOT NULL, revoked INTEGER, device TEXT NOT NULL DEFAULT '', seen INTEGER, expires INTEGER,
  PRIMARY KEY(account_id, key_id)) STRICT;
CREATE TABLE account(
  account_id INTEGER PRIMARY KEY AUTOINCREMENT, user_id TEXT NOT NULL, removed INTEGER, plan_id INTEGER,
  status TEXT, credit_limit_ud INTEGER NOT NULL DEFAULT 0, quota_bytes INTEGER, quota_period TEXT,
  zone TEXT NOT NULL DEFAULT 'UTC') STRICT;
CREATE INDEX account_user ON account(user_id);
CREATE TABLE lease(
  account_id INTEGER NOT NULL, user_id TEXT NOT NULL, node TEXT NOT NULL, address_index INTEGER NOT NULL UNIQUE,
  ipv4 TEXT, ipv6 TEXT, expires INTEGER NOT NULL, node_id BLOB, PRIMARY KEY(account_id, node)) STRICT;

INSERT INTO account(user_id, removed, status)
  SELECT user_id, max(ended), 'removed' FROM (
    SELECT r.user_id, max(r.t_end) AS ended FROM usage_record r LEFT JOIN user_3 u ON u.user_id = r.user_id
      WHERE r.user_id <> '?' AND (u.user_id IS NULL OR r.t_end <= u.created) GROUP BY r.user_id
    UNION ALL
    SELECT s.user_id, s.t_close FROM session_record s LEFT JOIN user_3 u ON u.user_id = s.user_id
      WHERE u.user_id IS NULL OR s.t_open <= u.created
    UNION ALL
    SELECT s.user_id, s.t_open FROM open_session s LEFT JOIN user_3 u ON u.user_id = s.user_id
      WHERE u.user_id IS NULL OR s.t_open <= u.created
    UNION ALL
    SELECT l.user_id, 0 FROM lease_3 l LEFT JOIN user_3 u ON u.user_id = l.user_id WHERE u.user_id IS NULL)
  GROUP BY user_id ORDER BY user_id;
INSERT INTO account(user_id, plan_id, status, credit_limit_ud, quota_bytes, quota_period, zone)
  SELECT u.user_id, a.plan_id, coalesce(a.status, 'active'), coalesce(a.credit_limit_ud, 0), a.quota_bytes,
    a.quota_period, coalesce(a.zone, 'UTC')
  FROM user_3 u LEFT JOIN account_3 a ON a.user_id = u.user_id ORDER BY u.created, u.user_id;
INSERT INTO user
  SELECT u.user_id, u.created, u.disabled, a.account_id FROM user_3 u
    JOIN account a ON a.user_id = u.user_id AND a.removed IS NULL;
INSERT INTO credential
  SELECT u.account_id, c.key_id, c.secret, c.created, c.disabled, c.revoked, c.device, c.seen, c.expires
  FROM credential_3 c JOIN user u ON u.user_id = c.user_id;
INSERT INTO lease
  SELECT a.account_id, l.user_id, l.node, l.address_index, l.ipv4, l.ipv6, l.expires, l.node_id
  FROM lease_3 l JOIN account a ON a.user_id = l.user_id
    AND (a.removed IS NULL OR l.user_id NOT IN (SELECT user_id FROM user));
DROP TABLE user_3;
DROP TABLE credential_3;
DROP TABLE account_3;
DROP TABLE lease_3;

ALTER TABLE open_session ADD COLUMN account_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session_record ADD COLUMN account_id INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_record ADD COLUMN account_id INTEGER NOT NULL DEFAULT 0;
DROP INDEX usage_user_time;
UPDATE open_session SET account_id = coalesce(
  (SELECT account_id FROM user u WHERE u.user_id = open_session.user_id AND t_open > u.created),
  (SELECT account_id FROM account a WHERE a.user_id = open_session.user_id AND a.removed IS NOT NULL), 0);
UPDATE session_record SET account_id = coalesce(
  (SELECT account_id FROM user u WHERE u.user_id = session_record.user_id AND t_open > u.created),
  (SELECT account_id FROM account a WHERE a.user_id = session_record.user_id AND a.removed IS NOT NULL), 0);
UPDATE usage_record SET account_id = coalesce(
  (SELECT account_id FROM user u WHERE u.user_id = usage_record.user_id AND t_end > u.created),
  (SELECT account_id FROM account a WHERE a.user_id = usage_record.user_id AND a.removed IS NOT NULL), 0);
CREATE INDEX usage_account_time ON usage_record(user_id, account_id, t_end);
)sql";

// To version 6.
inline constexpr const char* kLedgerSql = R"sql(
CREATE TABLE ledger(
  entry_id INTEGER PRIMARY KEY, account_id INTEGER NOT NULL, user_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK(kind IN('usage','discount','topup','adjust','refund','reward')),
  amount_ud INTEGER NOT NULL, ref TEXT NOT NULL UNIQUE, at INTEGER NOT NULL, note TEXT NOT NULL,
  actor TEXT NOT NULL, sha BLOB NOT NULL) STRICT;
CREATE INDEX ledger_account ON ledger(account_id);
CREATE TRIGGER ledger_is_not_changed BEFORE UPDATE ON ledger BEGIN SELECT RAISE(ABORT, 'entries are only added'); END;
CREATE TRIGGER ledger_is_not_shortened BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'entries are only added'); END;
)sql";

// To version 9.
inline constexpr const char* kChargesSql = R"sql(
CREATE TABLE balance(account_id INTEGER PRIMARY KEY, balance_ud INTEGER NOT NULL, entries INTEGER NOT NULL) STRICT;
INSERT INTO balance SELECT account_id, sum(amount_ud), count(*) FROM ledger GROUP BY account_id;
CREATE TRIGGER ledger_is_summed AFTER INSERT ON ledger BEGIN
  INSERT INTO balance(account_id, balance_ud, entries) VALUES(NEW.account_id, NEW.amount_ud, 1)
    ON CONFLICT DO UPDATE SET balance_ud = balance_ud + excluded.balance_ud, entries = entries + 1; END;
CREATE TABLE plan_use(
  use_id INTEGER PRIMARY KEY, account_id INTEGER NOT NULL, plan_id INTEGER NOT NULL, valid_from INTEGER NOT NULL,
  at INTEGER NOT NULL, actor TEXT NOT NULL) STRICT;
CREATE TABLE booked(
  snapt_id TEXT PRIMARY KEY, epoch INTEGER NOT NULL, seq INTEGER NOT NULL, until_seq INTEGER,
  account_id INTEGER NOT NULL, quarter INTEGER NOT NULL) STRICT, WITHOUT ROWID;
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
)sql";

// Entry i brings a database of version i + 1 to version i + 2.
inline constexpr std::array<const char*, kSchemaVersion - 1> kMigrations = {
    "ALTER TABLE credential ADD COLUMN device TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE credential ADD COLUMN seen INTEGER;"
    "ALTER TABLE credential ADD COLUMN expires INTEGER;",
    "ALTER TABLE lease ADD COLUMN node_id BLOB;",
    kAccountsSql,
    "CREATE TABLE plan("
    "  plan_id INTEGER NOT NULL, rev INTEGER NOT NULL, name TEXT NOT NULL, valid_from INTEGER NOT "
    "NULL,"
    "  toml TEXT NOT NULL, sha BLOB NOT NULL, PRIMARY KEY(plan_id, rev)) STRICT;",
    kLedgerSql,
    "ALTER TABLE usage_record ADD COLUMN undelivered INTEGER;",
    "ALTER TABLE usage_record ADD COLUMN tun_up INTEGER;"
    "ALTER TABLE usage_record ADD COLUMN tun_down INTEGER;",
    kChargesSql,
    "ALTER TABLE account DROP COLUMN credit_limit_ud;"  // 0 everywhere: nothing set one
    "ALTER TABLE account ADD COLUMN credit_limit_ud INTEGER;"
    "ALTER TABLE account ADD COLUMN on_exhausted TEXT NOT NULL DEFAULT 'notify';"
    "ALTER TABLE account ADD COLUMN throttle_bits_per_s INTEGER;",
    "",  // longer images in open_flow; shorter ones are read
    kUsageSumsSql,
    "CREATE TABLE snapt_price("
    "  snapt_id TEXT NOT NULL, epoch INTEGER NOT NULL, price_permille INTEGER NOT NULL,"
    "  PRIMARY KEY(snapt_id, epoch)) STRICT, WITHOUT ROWID;"
    "CREATE TRIGGER snapt_price_is_not_changed BEFORE UPDATE ON snapt_price BEGIN "
    "SELECT RAISE(ABORT, 'prices are only added'); END;"
    "CREATE TRIGGER snapt_price_is_not_removed BEFORE DELETE ON snapt_price BEGIN "
    "SELECT RAISE(ABORT, 'prices are only added'); END;",
    "ALTER TABLE event ADD COLUMN mono INTEGER;",
};

}  // namespace continuo::snapt::store
