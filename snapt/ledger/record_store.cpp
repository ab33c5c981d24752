#include "snapt/ledger/record_store.hpp"

#include <algorithm>
#include <limits>

#include <openssl/evp.h>

namespace continuo::snapt::ledger {
namespace {

using base::Errc;
using base::Error;
using base::Result;
using flow::UsageRecord;
using store::Database;
using store::Statement;

// Calls `visit` with each field in canonical order, except those that later versions added, from
// account_id on; the columns below have the same order, with those last.
template <typename Record, typename Visit>
void for_each_field(Record& record, Visit&& visit) {
    visit(record.snapt_id);
    visit(record.epoch);
    visit(record.seq);
    visit(record.user_id);
    visit(record.session_id);
    visit(record.cnapt_id);
    visit(record.sharer_id);
    visit(record.flow_id);
    visit(record.cls);
    visit(record.proto);
    visit(record.app);
    visit(record.dport);
    visit(record.dst);
    visit(record.t_start);
    visit(record.t_end);
    visit(record.active_us);
    visit(record.pay_up);
    visit(record.pay_down);
    visit(record.inner_up);
    visit(record.inner_down);
    visit(record.pkt_up);
    visit(record.pkt_down);
    visit(record.pre);
    visit(record.post);
    visit(record.delay_us);
    visit(record.delay_max_us);
    visit(record.delay_src);
    visit(record.jitter_us);
    visit(record.handovers);
    visit(record.lost_pkts);
    visit(record.cause);
    visit(record.flags);
}

constexpr const char* kInsertSql =
    "INSERT INTO usage_record(snapt_id,epoch,seq,user_id,session_id,cnapt_id,sharer_id,flow_id,cls,"
    "proto,app,dport,dst,t_start,t_end,active_us,pay_up,pay_down,inner_up,inner_down,pkt_up,pkt_"
    "down,"
    "pre,post,delay_us,delay_max_us,delay_src,jitter_us,handovers,lost_pkts,cause,flags,account_id,"
    "undelivered,tun_up,tun_down,sha) "
    "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
// The query for records; `rest` is its condition and order.
std::string select_records(std::string_view rest) {
    std::string sql = "SELECT snapt_id,epoch,seq,user_id,session_id,cnapt_id,sharer_id,flow_id,cls,"
                      "proto,app,dport,dst,t_start,t_end,active_us,pay_up,pay_down,inner_up,inner_"
                      "down,pkt_up,pkt_"
                      "down,"
                      "pre,post,delay_us,delay_max_us,delay_src,jitter_us,handovers,lost_pkts,"
                      "cause,flags,account_id,"
                      "undelivered,tun_up,tun_down,sha FROM usage_record ";
    sql += rest;
    return sql;
}

struct TextMaker {
    std::string text;

    void operator()(const std::string& value) { add(value); }
    void operator()(int64_t value) { add(std::to_string(value)); }
    void operator()(uint32_t value) { add(std::to_string(value)); }
    void operator()(flow::Cause value) { add(std::to_string(static_cast<int>(value))); }
    void operator()(const std::optional<int64_t>& value) {
        add(value ? std::to_string(*value) : std::string());
    }
    void operator()(const std::optional<std::string>& value) { add(value.value_or("")); }
    void operator()(const flow::SessionKey& key) {
        constexpr std::string_view kDigits = "0123456789abcdef";
        std::string hex;
        for (const uint8_t byte : key) {
            hex += kDigits[byte >> 4];
            hex += kDigits[byte & 0x0FU];
        }
        add(hex);
    }

  private:
    void add(const std::string& field) {
        if (!is_first_) {
            text += '|';
        }
        is_first_ = false;
        text += field;
    }
    bool is_first_ = true;
};

struct Binder {
    Statement& statement;
    int parameter = 0;

    void operator()(const std::string& value) {
        statement.bind(++parameter, std::string_view(value));
    }
    void operator()(const flow::SessionKey& value) {
        statement.bind(++parameter, base::ByteView(value));
    }
    void operator()(int64_t value) { statement.bind(++parameter, value); }
    void operator()(uint32_t value) { statement.bind(++parameter, int64_t{value}); }
    void operator()(flow::Cause value) { statement.bind(++parameter, static_cast<int64_t>(value)); }
    void operator()(const std::optional<int64_t>& value) { statement.bind(++parameter, value); }
    void operator()(const std::optional<std::string>& value) { statement.bind(++parameter, value); }
};

struct Loader {
    Statement& statement;
    int column = 0;

    void operator()(std::string& value) { value = statement.text(column++); }
    void operator()(flow::SessionKey& value) {
        const base::ByteView bytes = statement.blob(column++);
        std::copy_n(bytes.begin(), std::min(bytes.size(), value.size()), value.begin());
    }
    void operator()(int64_t& value) { value = statement.integer(column++); }
    void operator()(uint32_t& value) { value = static_cast<uint32_t>(statement.integer(column++)); }
    void operator()(flow::Cause& value) {
        value = static_cast<flow::Cause>(statement.integer(column++));
    }
    void operator()(std::optional<int64_t>& value) {
        if (!statement.is_null(column)) {
            value = statement.integer(column);
        }
        ++column;
    }
    void operator()(std::optional<std::string>& value) {
        value = statement.optional_text(column++);
    }
};

}  // namespace

std::string canonical_text(const UsageRecord& record) {
    TextMaker maker;
    for_each_field(record, maker);
    if ((record.flags & flow::record_flag::kHasAccount) != 0) {
        maker(record.account_id);
    }
    if (record.undelivered) {
        maker(*record.undelivered);
    }
    if (record.tun_up) {
        maker(*record.tun_up);
        maker(record.tun_down);
    }
    return maker.text;
}

Result<RecordDigest> digest_of(const UsageRecord& record) {
    const std::string text = canonical_text(record);
    RecordDigest digest{};
    if (EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1) {
        return Error{Errc::System, "SHA-256 is not available", 0};
    }
    return digest;
}

Result<RecordStore> RecordStore::open(Database& database) {
    Statement insert = CTN_TRY(database.prepare(kInsertSql));
    return RecordStore(std::move(insert), CTN_TRY(RecordSums::add_sum(database)));
}

Result<void> RecordStore::insert(const UsageRecord& record, RecordSums& sums) {
    const RecordDigest digest = CTN_TRY(digest_of(record));
    Binder binder{insert_};
    for_each_field(record, binder);
    binder(record.account_id);
    binder(record.undelivered);
    binder(record.tun_up);
    binder(record.tun_down);
    insert_.bind(binder.parameter + 1, base::ByteView(digest));
    sums.add(record);
    return insert_.run();
}

Result<void> RecordStore::insert(const UsageRecord& record) {
    RecordSums sums;
    CTN_TRY(insert(record, sums));
    return write(sums);
}

namespace {

// The record of a row, and whether its digest is right.
Result<bool> load(Statement& row, UsageRecord& record) {
    Loader loader{row};
    for_each_field(record, loader);
    loader(record.account_id);
    loader(record.undelivered);
    loader(record.tun_up);
    loader(record.tun_down);
    const RecordDigest digest = CTN_TRY(digest_of(record));
    const base::ByteView stored = row.blob(loader.column);
    return std::equal(digest.begin(), digest.end(), stored.begin(), stored.end());
}

}  // namespace

Result<std::vector<UsageRecord>> read_records(Database& database, int64_t epoch) {
    const std::string sql = select_records("WHERE epoch=? ORDER BY seq");
    Statement select = CTN_TRY(database.prepare(sql.c_str()));
    select.bind(1, epoch);
    std::vector<UsageRecord> records;
    while (CTN_TRY(select.step())) {
        if (!CTN_TRY(load(select, records.emplace_back()))) {
            return Error{Errc::Malformed, "usage record differs from its digest", 0};
        }
    }
    return records;
}

Result<void>
visit_records(Database& database,
              const std::function<void(const UsageRecord& record, bool is_genuine)>& visit) {
    const std::string sql = select_records("ORDER BY snapt_id,epoch,seq");
    Statement select = CTN_TRY(database.prepare(sql.c_str()));
    while (CTN_TRY(select.step())) {
        UsageRecord record;
        const bool is_genuine = CTN_TRY(load(select, record));
        visit(record, is_genuine);
    }
    return {};
}

namespace {

// Records of a query after `after`. Few are found by the query's index, many in storage order, so
// that nothing is sorted.
Result<std::vector<UsageRecord>> read_page(Database& database,
                                           const UsageQuery& query,
                                           const RecordPlace& after,
                                           size_t limit,
                                           bool is_few) {
    // The query is usage_source_sql(), from FROM on.
    std::string sql = select_records("");
    sql.resize(sql.rfind(" FROM"));
    sql += is_few ? usage_source_sql(query) : usage_scan_sql(query);
    sql += " AND (snapt_id,epoch,seq)>(?6,?7,?8) ORDER BY snapt_id,epoch,seq LIMIT ?5";
    Statement select = CTN_TRY(database.prepare(sql.c_str()));
    bind_usage(select, query);
    select.bind(5, static_cast<int64_t>(limit))
        .bind(6, std::string_view(after.snapt_id))
        .bind(7, after.epoch)
        .bind(8, after.seq);
    std::vector<UsageRecord> page;
    while (CTN_TRY(select.step())) {
        CTN_TRY(load(select, page.emplace_back()));
    }
    return page;
}

}  // namespace

Result<void> visit_records_of(Database& database,
                              const UsageQuery& query,
                              size_t limit,
                              const std::function<bool(const UsageRecord& record)>& visit,
                              const RecordPlace& first_after) {
    const bool is_few = limit <= kRecordPage;
    RecordPlace after = first_after;
    for (size_t left = limit; left > 0;) {
        const size_t wanted = std::min(left, kRecordPage);
        const auto page = CTN_TRY(read_page(database, query, after, wanted, is_few));
        for (const UsageRecord& record : page) {
            if (!visit(record)) {
                return {};
            }
        }
        if (page.size() < wanted) {
            break;
        }
        after = {page.back().snapt_id, page.back().epoch, page.back().seq};
        left -= page.size();
    }
    return {};
}

}  // namespace continuo::snapt::ledger
