// usage_sum: what usage records and charges come to, by quarter of an hour and by UTC day, of each
// account and of all together, so that a report does not read them. At any moment it is their sum,
// through crashes too, and `verify` computes it anew: it changes in the transaction that adds or
// removes a record or a charge. Whoever adds records adds to it (record_sums.hpp), the rest is done
// by triggers. Each day and month of each zone begins with a quarter of an hour.
#pragma once

#include <cstdint>

namespace continuo::snapt::store {

inline constexpr int64_t kSumDayUs = 86'400'000'000;
inline constexpr int64_t kQuartersOfDay = 96;
// The account of the sums of all, whose user is empty.
inline constexpr int64_t kAllAccounts = -1;

// For a new database after kSchemaSql, and to version 12, where it adds up what is there. Text that
// has been in a release stays as it is.
//
// `unit` counts from 1970, in units of `unit_s`. A record is in that of its last microsecond, a
// flow where its first record is, a charge where its quarter is, without an application. The table
// is not STRICT: a sum beyond 64 bits becomes a REAL, and no record is refused for it.
inline constexpr const char* kUsageSumsSql = R"sql(
CREATE TABLE usage_sum(
  unit_s INTEGER NOT NULL, user_id TEXT NOT NULL, account_id INTEGER NOT NULL, unit INTEGER NOT NULL,
  cls INTEGER NOT NULL, snapt_id TEXT NOT NULL, app TEXT NOT NULL,
  records INTEGER NOT NULL, flows INTEGER NOT NULL,
  pay_up INTEGER NOT NULL, pay_down INTEGER NOT NULL, inner_up INTEGER NOT NULL, inner_down INTEGER NOT NULL,
  pre INTEGER NOT NULL, post INTEGER NOT NULL, undelivered INTEGER NOT NULL,
  tun_up INTEGER NOT NULL, tun_down INTEGER NOT NULL, gross_ud INTEGER NOT NULL, discount_ud INTEGER NOT NULL,
  PRIMARY KEY(unit_s, user_id, account_id, unit, cls, snapt_id, app)) WITHOUT ROWID;
-- For the days of a span, of all accounts.
CREATE INDEX usage_sum_day ON usage_sum(unit) WHERE unit_s = 86400;

INSERT INTO usage_sum
  SELECT 900, user_id, account_id, (t_end-1)/900000000, cls, snapt_id, coalesce(app, ''), count(*),
    sum((flags&513)=1 AND ((flow_id>>53)&255)=0), sum(pay_up), sum(pay_down), sum(inner_up), sum(inner_down),
    sum(pre), sum(post), coalesce(sum(undelivered), 0), coalesce(sum(tun_up), 0), coalesce(sum(tun_down), 0), 0, 0
  FROM usage_record GROUP BY 2, 3, 4, 5, 6, 7;
INSERT INTO usage_sum
  SELECT 900, a.user_id, c.account_id, c.quarter, c.cls, c.snapt_id, '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    sum(c.gross_ud), sum(c.discount_ud)
  FROM charge c JOIN account a ON a.account_id = c.account_id
  WHERE (c.gross_ud <> 0 OR c.discount_ud <> 0) AND NOT EXISTS(SELECT 1 FROM charge r WHERE r.replaces = c.charge_id)
  GROUP BY 2, 3, 4, 5, 6
  ON CONFLICT DO UPDATE SET gross_ud = excluded.gross_ud, discount_ud = excluded.discount_ud;
INSERT INTO usage_sum
  SELECT 86400, user_id, account_id, unit/96, cls, snapt_id, app, sum(records), sum(flows),
    sum(pay_up), sum(pay_down), sum(inner_up), sum(inner_down), sum(pre), sum(post), sum(undelivered),
    sum(tun_up), sum(tun_down), sum(gross_ud), sum(discount_ud)
  FROM usage_sum WHERE unit_s = 900 GROUP BY 2, 3, 4, 5, 6, 7;
INSERT INTO usage_sum
  SELECT unit_s, '', -1, unit, cls, snapt_id, app, sum(records), sum(flows),
    sum(pay_up), sum(pay_down), sum(inner_up), sum(inner_down), sum(pre), sum(post), sum(undelivered),
    sum(tun_up), sum(tun_down), sum(gross_ud), sum(discount_ud)
  FROM usage_sum GROUP BY 1, 4, 5, 6, 7;

CREATE TRIGGER usage_is_subtracted AFTER DELETE ON usage_record BEGIN
  INSERT INTO usage_sum
    SELECT k.unit_s, iif(k.own, OLD.user_id, ''), iif(k.own, OLD.account_id, -1), (OLD.t_end-1)/(k.unit_s*1000000),
      OLD.cls, OLD.snapt_id, coalesce(OLD.app, ''), -1, -((OLD.flags&513)=1 AND ((OLD.flow_id>>53)&255)=0),
      -OLD.pay_up, -OLD.pay_down, -OLD.inner_up, -OLD.inner_down, -OLD.pre, -OLD.post, -coalesce(OLD.undelivered, 0),
      -coalesce(OLD.tun_up, 0), -coalesce(OLD.tun_down, 0), 0, 0
    FROM (SELECT 900 AS unit_s, 1 AS own UNION ALL SELECT 86400, 1 UNION ALL SELECT 900, 0 UNION ALL
      SELECT 86400, 0) k WHERE true
    ON CONFLICT DO UPDATE SET records = records - 1, flows = flows + excluded.flows,
      pay_up = pay_up + excluded.pay_up, pay_down = pay_down + excluded.pay_down,
      inner_up = inner_up + excluded.inner_up, inner_down = inner_down + excluded.inner_down,
      pre = pre + excluded.pre, post = post + excluded.post, undelivered = undelivered + excluded.undelivered,
      tun_up = tun_up + excluded.tun_up, tun_down = tun_down + excluded.tun_down;
  DELETE FROM usage_sum
    WHERE unit_s IN (900, 86400) AND user_id IN (OLD.user_id, '') AND account_id IN (OLD.account_id, -1) AND
      unit IN ((OLD.t_end-1)/900000000, (OLD.t_end-1)/86400000000) AND cls = OLD.cls AND
      snapt_id = OLD.snapt_id AND app = coalesce(OLD.app, '') AND
      records = 0 AND gross_ud = 0 AND discount_ud = 0; END;
-- The charge that a new one stands for goes.
CREATE TRIGGER charge_is_summed AFTER INSERT ON charge BEGIN
  INSERT INTO usage_sum
    SELECT k.unit_s, iif(k.own, a.user_id, ''), iif(k.own, c.account_id, -1), c.quarter*900/k.unit_s,
      c.cls, c.snapt_id, '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
      iif(c.charge_id = NEW.charge_id, c.gross_ud, -c.gross_ud),
      iif(c.charge_id = NEW.charge_id, c.discount_ud, -c.discount_ud)
    FROM charge c JOIN account a ON a.account_id = c.account_id,
      (SELECT 900 AS unit_s, 1 AS own UNION ALL SELECT 86400, 1 UNION ALL SELECT 900, 0 UNION ALL
      SELECT 86400, 0) k
    WHERE c.charge_id IN (NEW.charge_id, NEW.replaces) AND (c.gross_ud <> 0 OR c.discount_ud <> 0)
    ON CONFLICT DO UPDATE SET gross_ud = gross_ud + excluded.gross_ud,
      discount_ud = discount_ud + excluded.discount_ud; END;
)sql";

}  // namespace continuo::snapt::store
