#include "snapt/users/session_desk.hpp"

#include "common/daemon/startup.hpp"
#include "common/report/json_value.hpp"
#include "common/report/status_report.hpp"
#include "snapt/accounting/usage_json.hpp"

#include <utility>

namespace continuo::snapt::users {

void SessionDesk::on_names(std::span<const control::App> apps) {
    if (session_.names->add(apps) &&
        !accountant_.name_apps(session_.accounting_number, session_.names)) {
        session_.names->on_refused();
    }
}

std::optional<std::string> SessionDesk::on_usage_query(const control::UsageQuery& query) {
    if (is_asking_.exchange(true)) {
        return report::error_json("one question at a time");
    }
    const auto request = report::JsonValue::parse(query.json);
    std::string failure;
    auto wanted = request ? accounting::usage_query_from(*request, failure) : std::nullopt;
    if (!wanted) {
        is_asking_ = false;
        return report::error_json("bad query");
    }
    wanted->user = session_.account.user;  // whatever was asked: a user sees its own usage only
    wanted->account_id = session_.account.id;
    wanted->is_own = true;
    const bool is_asked = accountant_.usage(
        *wanted, daemon::utc_us(),
        [self = shared_from_this(),
         number = query.request](base::Result<ledger::UsageReport> usage) {
            std::string json = accounting::usage_answer(usage);
            if (json.size() > control::kMaxUsageBytes) {
                json = report::error_json("too many rows: narrow by --from and --to");
            }
            self->is_asking_ = false;
            self->loop_.post([&server = self->server_, link = self->session_.link, number,
                              json = std::move(json)] {
                server.reply_usage(link, {number, json});
            });
        });
    if (is_asked) {
        return std::nullopt;
    }
    is_asking_ = false;
    return report::error_json(accounting::kTooManyQuestions);
}

}  // namespace continuo::snapt::users
