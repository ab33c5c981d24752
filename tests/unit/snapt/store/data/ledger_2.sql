-- ledger.db of schema version 2, with users, keys, and leases of alice and of carol, who was removed.
CREATE TABLE state(k TEXT PRIMARY KEY, v INTEGER NOT NULL) STRICT;
INSERT INTO state(k, v) VALUES('epoch', 0), ('next_seq', 0);

-- Associations that may carry traffic, committed before they do; live slots refer to `no`, unique in the epoch.
CREATE TABLE open_session(
  no INTEGER PRIMARY KEY, session_id BLOB NOT NULL, user_id TEXT NOT NULL, cnapt_id TEXT NOT NULL,
  sharer_id TEXT NOT NULL, t_open INTEGER NOT NULL) STRICT;
CREATE TABLE open_app(
  session_no INTEGER NOT NULL, tag INTEGER NOT NULL, name TEXT NOT NULL,
  PRIMARY KEY(session_no, tag)) STRICT, WITHOUT ROWID;
-- What ended associations cost beside their flows: further copies, control, keep-alives.
CREATE TABLE session_record(
  epoch INTEGER NOT NULL, no INTEGER NOT NULL, session_id BLOB NOT NULL, user_id TEXT NOT NULL,
  cnapt_id TEXT NOT NULL, sharer_id TEXT NOT NULL, t_open INTEGER NOT NULL, t_close INTEGER NOT NULL,
  tun_up INTEGER NOT NULL, tun_down INTEGER NOT NULL, PRIMARY KEY(epoch, no)) STRICT, WITHOUT ROWID;
-- Slot images: what was put into records, and the latest that was saved.
CREATE TABLE open_flow(
  flow_id INTEGER PRIMARY KEY, session_no INTEGER NOT NULL, cls INTEGER NOT NULL, proto INTEGER NOT NULL,
  t_open INTEGER NOT NULL, t_sealed INTEGER NOT NULL, sealed BLOB NOT NULL, ckpt BLOB NOT NULL,
  closed INTEGER NOT NULL) STRICT;
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
  PRIMARY KEY(snapt_id, epoch, seq)) STRICT, WITHOUT ROWID;
CREATE INDEX usage_user_time ON usage_record(user_id, t_end);
CREATE INDEX usage_time ON usage_record(t_end);
CREATE TABLE event(id INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL, detail TEXT NOT NULL) STRICT;

CREATE TABLE user(user_id TEXT PRIMARY KEY, created INTEGER NOT NULL, disabled INTEGER NOT NULL) STRICT;
CREATE TABLE credential(
  user_id TEXT NOT NULL, key_id TEXT NOT NULL, secret BLOB NOT NULL, created INTEGER NOT NULL,
  disabled INTEGER NOT NULL, revoked INTEGER, device TEXT NOT NULL DEFAULT '', seen INTEGER, expires INTEGER,
  PRIMARY KEY(user_id, key_id)) STRICT;
CREATE TABLE account(
  user_id TEXT PRIMARY KEY, plan_id INTEGER, status TEXT, credit_limit_ud INTEGER NOT NULL DEFAULT 0,
  quota_bytes INTEGER, quota_period TEXT, zone TEXT NOT NULL DEFAULT 'UTC') STRICT;
CREATE TABLE lease(
  user_id TEXT NOT NULL, node TEXT NOT NULL, address_index INTEGER NOT NULL UNIQUE, ipv4 TEXT, ipv6 TEXT,
  expires INTEGER NOT NULL, PRIMARY KEY(user_id, node)) STRICT;

INSERT INTO user VALUES('alice', 1795000000000000, 0), ('bob', 1795000000000000, 1);
INSERT INTO credential VALUES
  ('alice', 'k1', x'1111111111111111111111111111111111111111111111111111111111111111', 1795000000000000, 0, 1795000001000000, '', NULL, NULL),
  ('alice', 'k2', x'2222222222222222222222222222222222222222222222222222222222222222', 1795000001000000, 0, NULL, 'phone', 1795000002000000, NULL),
  ('bob', 'k1', x'3333333333333333333333333333333333333333333333333333333333333333', 1795000000000000, 0, NULL, '', NULL, NULL);
INSERT INTO account(user_id, status, quota_bytes, quota_period) VALUES('alice', 'active', 1000, 'month'), ('bob', 'active', NULL, NULL);
INSERT INTO lease VALUES('alice', 'laptop', 9, '100.64.0.9', NULL, 1795000000000000),
  ('carol', 'laptop', 10, '100.64.0.10', NULL, 1795000000000000);
PRAGMA application_id = 1129598540;
PRAGMA user_version = 2;
