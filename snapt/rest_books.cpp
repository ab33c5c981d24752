#include "snapt/rest_books.hpp"

#include "common/base/log.hpp"
#include "common/config/units.hpp"
#include "common/daemon/startup.hpp"
#include "common/report/json.hpp"
#include "common/report/json_value.hpp"
#include "snapt/accounting/quota.hpp"
#include "snapt/commands/record_commands.hpp"
#include "snapt/commands/statement_command.hpp"
#include "snapt/ledger/record_store.hpp"
#include "snapt/users/user_commands.hpp"

#include <algorithm>
#include <charconv>

namespace continuo::snapt {

using base::Errc;
using base::Error;
using base::Result;
using ledger::RecordPlace;
using report::JsonValue;
using report::JsonWriter;
using rest::Call;
using rest::Operation;
using rest::Outcome;
using store::Balance;
using store::balance_of;
using store::Database;
using store::OpenMode;

namespace {

constexpr unsigned kUnprocessable = 422;
constexpr report::JsonLimits kBodyLimits = {65'536, 64, 4};

// SQLite calls it while this lives.
class TimeLimit {
  public:
    TimeLimit(Database& database, std::chrono::seconds most, const std::atomic<bool>& is_ending)
        : database_(database)
        , give_up_([until = std::chrono::steady_clock::now() + most, &is_ending] {
            return is_ending || std::chrono::steady_clock::now() >= until;
        }) {
        database_.set_give_up(&give_up_);
    }
    TimeLimit(const TimeLimit&) = delete;
    TimeLimit& operator=(const TimeLimit&) = delete;
    ~TimeLimit() { database_.set_give_up(nullptr); }

  private:
    Database& database_;
    std::function<bool()> give_up_;
};

void write_account(JsonWriter& json, const Balance& balance) {
    json.begin_object().field("user", balance.account.user);
    json.field("account", balance.account.id);
    json.field("removed", balance.removed_us.has_value());
    json.field("balance_ud", balance.balance_ud).field("entries", balance.entries).end_object();
}

// The current account of the user.
Result<int64_t> account_of(Database& database, const Call& call) {
    if (call.is_self()) {
        return call.caller.account_id;
    }
    const auto all = CTN_TRY(store::balances(database, call.name));
    for (const Balance& balance : all) {
        if (!balance.removed_us) {
            return balance.account.id;
        }
    }
    return Error{Errc::NotFound, "no such user", 0};
}

Result<std::string> accounts(Database& database) {
    const auto all = CTN_TRY(store::balances(database));
    JsonWriter json;
    json.begin_array();
    for (const Balance& balance : all) {
        write_account(json, balance);
    }
    json.end_array();
    return json.take();
}

Result<std::string> balance(Database& database, const Call& call) {
    const int64_t account_id = CTN_TRY(account_of(database, call));
    JsonWriter json;
    write_account(json, CTN_TRY(balance_of(database, account_id)));
    return json.take();
}

// "zrh-1/7/182204"
std::optional<RecordPlace> parse_place(std::string_view text) {
    const size_t second = text.rfind('/');
    const size_t first =
        second == std::string_view::npos || second == 0 ? second : text.rfind('/', second - 1);
    if (first == std::string_view::npos || first == 0) {
        return std::nullopt;
    }
    RecordPlace place;
    place.snapt_id = text.substr(0, first);
    const auto read = [&text](size_t begin, size_t end, int64_t& number) {
        const auto got = std::from_chars(text.data() + begin, text.data() + end, number);
        return got.ec == std::errc() && got.ptr == text.data() + end;
    };
    return read(first + 1, second, place.epoch) && read(second + 1, text.size(), place.seq)
               ? std::optional(std::move(place))
               : std::nullopt;
}

std::string place_text(const flow::UsageRecord& record) {
    return record.snapt_id + "/" + std::to_string(record.epoch) + "/" + std::to_string(record.seq);
}

// The body of a request as an object; nothing when it is not one.
std::optional<JsonValue> body_of(const Call& call) {
    auto body = JsonValue::parse(call.body, kBodyLimits);
    return body && body->is_object() ? std::optional(std::move(*body)) : std::nullopt;
}

}  // namespace

Outcome outcome_of(const Error& error) {
    switch (error.code) {
    case Errc::NotFound:
        return rest::problem(404, error.where);
    case Errc::InvalidConfig:
        return rest::problem(kUnprocessable, error.where);
    case Errc::InvalidState:
        return rest::problem(409, error.where);
    case Errc::LimitReached:
        return rest::problem(503, error.where);
    default:
        base::log(base::LogLevel::Error, "REST: %s", daemon::describe(error).c_str());
        return rest::problem(500);
    }
}

std::optional<ledger::UsageQuery> rest_usage_query(const Call& call, std::string& failure) {
    ledger::UsageQuery query;
    std::string by = call.target.value("by").value_or("");
    while (!by.empty()) {
        const size_t end = std::min(by.find(','), by.size());
        const auto key = ledger::parse_usage_key(by.substr(0, end));
        if (!key || query.by.size() == 6) {
            failure = "by: expected some of user, class, snapt, day, month, app";
            return std::nullopt;
        }
        query.by.push_back(*key);
        by.erase(0, end + 1);
    }
    query.zone = call.target.value("zone").value_or("UTC");
    const auto zone = store::TimeZone::load(query.zone);
    if (!zone) {
        failure = "zone: there is no such time zone";
        return std::nullopt;
    }
    for (const auto& [name, time] :
         {std::pair("from", &query.from_us), std::pair("to", &query.to_us)}) {
        if (const auto text = call.target.value(name)) {
            *time = zone->parse_time_us(*text);
            if (!*time) {
                failure = std::string(name) + ": expected a day or a time, such as 2026-11-01";
                return std::nullopt;
            }
        }
    }
    if (call.is_self()) {
        query.user = call.caller.user;
        query.account_id = call.caller.account_id;
        query.is_own = true;
    } else {
        query.user = call.target.value("user");
    }
    return query;
}

Result<Database*> RestBooks::reader() {
    if (!reader_) {
        reader_ = CTN_TRY(Database::open(path_, OpenMode::ReadOnly));
    }
    return &*reader_;
}

Result<bool> RestBooks::is_there(const rest::Token& token) {
    Database* const database = CTN_TRY(reader());
    const auto balance = balance_of(*database, token.account_id);
    if (!balance) {
        return balance.error().code == Errc::NotFound ? Result<bool>(false) : balance.error();
    }
    return !balance->removed_us && balance->account.user == token.user;
}

Outcome RestBooks::answer(const Call& call, int64_t now_us) {
    if (call.operation == Operation::SetQuota) {
        return set_quota_of(call, now_us);
    }
    if (call.operation == Operation::Topup || call.operation == Operation::Adjust) {
        return book_for(call, now_us);
    }
    Outcome outcome;
    auto text = ask(call, now_us, outcome.content_type);
    if (!text) {
        return outcome_of(text.error());
    }
    outcome.body = std::move(*text);
    return outcome;
}

Result<std::string> RestBooks::ask(const Call& call, int64_t now_us, std::string& type) {
    Database& database = *CTN_TRY(reader());
    const TimeLimit limit(database, call.is_self() ? kSelfBooksTime : kBooksTime, is_ending_);
    switch (call.operation) {
    case Operation::Accounts:
        return accounts(database);
    case Operation::Balance:
        return balance(database, call);
    case Operation::Statement:
        return statement(database, call, type);
    case Operation::Quota:
        return quota(database, call, now_us);
    case Operation::Records:
        return records(database, call, type);
    default:
        return Error{Errc::InvalidState, "no operation of the books", 0};
    }
}

Result<std::string> RestBooks::records(Database& database, const Call& call, std::string& type) {
    std::string failure;
    const auto query = rest_usage_query(call, failure);
    const auto after_text = call.target.value("after");
    const auto after = after_text ? parse_place(*after_text) : std::optional(RecordPlace());
    const auto limit = config::parse_unsigned(
        call.target.value("limit").value_or(std::to_string(kRestRecords)), kMaxRestRecords);
    const std::string format = call.target.value("format").value_or("json");
    if (!query) {
        return Error{Errc::InvalidConfig, "from, to or zone cannot be read", 0};
    }
    if (!after || !limit || *limit == 0 || (format != "json" && format != "csv")) {
        return Error{Errc::InvalidConfig,
                     "expected after=NAME/EPOCH/SEQ, limit from 1 to 10000, format json or csv", 0};
    }
    const bool is_csv = format == "csv";
    std::string text = is_csv ? commands::record_csv_head() : "{\"records\":[";
    std::string last;
    size_t count = 0;
    CTN_TRY(ledger::visit_records_of(
        database, *query, static_cast<size_t>(*limit),
        [&](const flow::UsageRecord& record) {
            if (is_csv) {
                text += commands::record_csv(record);
            } else {
                text += (count == 0 ? "" : ",") + commands::record_json(record);
            }
            last = place_text(record);
            ++count;
            return true;
        },
        *after));
    if (is_csv) {
        type = "text/csv; charset=utf-8";
        return text;
    }
    const std::string next = count == *limit ? report::json_string(last) : std::string("null");
    return text + "],\"next\":" + next + "}";
}

Result<std::string> RestBooks::statement(Database& database, const Call& call, std::string& type) {
    const int64_t account_id = CTN_TRY(account_of(database, call));
    const std::string format = call.target.value("format").value_or("json");
    if (format != "json" && format != "csv" && format != "html") {
        return Error{Errc::InvalidConfig, "expected format json, csv or html", 0};
    }
    const accounting::AccountStatement statement = CTN_TRY(
        accounting::account_statement(database, account_id, call.target.value("month").value_or(""),
                                      call.target.value("zone").value_or("")));
    if (format == "csv") {
        type = "text/csv; charset=utf-8";
        return commands::statement_csv(statement);
    }
    if (format == "html") {
        type = "text/html; charset=utf-8";
        return commands::statement_page(statement);
    }
    return rest::with_large_as_text(commands::statement_json(statement));
}

Result<std::string> RestBooks::quota(Database& database, const Call& call, int64_t now_us) {
    const int64_t account_id = CTN_TRY(account_of(database, call));
    JsonWriter json;
    json.begin_object().field("user", call.name);
    std::optional<accounting::QuotaUse> found;
    const auto uses = CTN_TRY(accounting::quota_uses(database, call.name, now_us));
    for (const accounting::QuotaUse& use : uses) {
        if (use.terms.account.id == account_id) {
            found = use;
        }
    }
    if (found && found->terms.quota) {
        const accounting::AccountTerms& terms = found->terms;
        json.field("quota_bytes", terms.quota->bytes).field("period", terms.quota->period);
        json.field("zone", terms.zone).field("from", terms.from_us / store::kUsPerSecond);
        json.field("until", terms.until_us / store::kUsPerSecond)
            .field("used_bytes", found->used_bytes);
        json.field("then", accounting::to_string(terms.then));
    } else {
        for (const char* name :
             {"quota_bytes", "period", "zone", "from", "until", "used_bytes", "then"}) {
            json.key(name).null();
        }
    }
    json.end_object();
    return rest::with_large_as_text(json.take());
}

Outcome RestBooks::set_quota_of(const Call& call, int64_t now_us) {
    const auto body = body_of(call);
    const auto text = body ? (*body)["quota"].string() : std::nullopt;
    const auto quota = text ? users::parse_user_quota(*text) : std::nullopt;
    const bool is_none = body && body->has("quota") && (*body)["quota"].is_null();
    if (!quota && !is_none) {
        return rest::problem(kUnprocessable,
                             R"(expected {"quota": "50GiB/month"}, or null for none)");
    }
    const auto zone = (*body)["zone"].string();
    const auto then =
        body->has("then") ? accounting::parse_exhaustion(body->text("then")) : std::nullopt;
    if (body->has("then") && !then) {
        return rest::problem(kUnprocessable,
                             R"(expected "then": "notify", "stop" or "throttle=1mbit")");
    }
    auto database = Database::open(path_, OpenMode::ReadWrite);
    if (!database) {
        return outcome_of(database.error());
    }
    accounting::TermsChange change;
    change.quota.emplace(quota);
    change.zone = zone ? std::optional(std::string(*zone)) : std::nullopt;
    change.then = then;
    const auto changed = accounting::change_terms(*database, call.name, change);
    if (!changed) {
        return outcome_of(changed.error());
    }
    auto now = this->quota(*database, call, now_us);
    return now ? Outcome{200, std::move(*now)} : outcome_of(now.error());
}

// The actor is the token: its bookings can be told from others.
Outcome RestBooks::book_for(const Call& call, int64_t now_us) {
    const auto body = body_of(call);
    const bool is_topup = call.operation == Operation::Topup;
    const auto credit = body ? (*body)[is_topup ? "amount" : "credit"].string() : std::nullopt;
    const auto debit = body && !is_topup ? (*body)["debit"].string() : std::nullopt;
    const auto amount_ud = store::parse_denarii(credit.value_or(debit.value_or("")));
    if (credit.has_value() == debit.has_value() || !amount_ud || *amount_ud == 0) {
        return rest::problem(kUnprocessable,
                             is_topup ? R"(expected {"amount": "50"}, in denarii)"
                                      : R"(expected {"credit": "0.25"} or {"debit": "0.25"})");
    }
    if (ledger::is_reserved_ref(call.key)) {
        return rest::problem(kUnprocessable, "u:, d: and r: begin the keys of usage");
    }
    store::MoneyEntry entry;
    entry.user_id = call.name;
    entry.kind = is_topup ? store::EntryKind::Topup : store::EntryKind::Adjust;
    entry.amount_ud = credit ? *amount_ud : -*amount_ud;
    entry.ref = call.key;
    entry.note = body->text("note");
    entry.at_us = now_us;
    entry.actor = "token " + call.caller.name;
    auto database = Database::open(path_, OpenMode::ReadWrite);
    if (!database) {
        return outcome_of(database.error());
    }
    const auto booked = store::book(*database, entry);
    if (!booked) {
        return booked.error().code == Errc::LimitReached
                   ? rest::problem(kUnprocessable, booked.error().where)
                   : outcome_of(booked.error());
    }
    const auto balance = balance_of(*database, booked->entry.account_id);
    if (!balance) {
        return outcome_of(balance.error());
    }
    JsonWriter json;
    json.begin_object().field("user", call.name).field("account", booked->entry.account_id);
    json.field("entry_id", booked->entry.entry_id).field("booked", booked->is_new);
    json.field("amount_ud", booked->entry.amount_ud);
    json.field("balance_ud", balance->balance_ud).end_object();
    return {200, rest::with_large_as_text(json.take())};
}

}  // namespace continuo::snapt
