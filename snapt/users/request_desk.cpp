#include "snapt/users/request_desk.hpp"

#include "common/daemon/startup.hpp"
#include "common/dataplane/figures.hpp"
#include "common/report/json.hpp"
#include "common/report/status_report.hpp"
#include "snapt/accounting/usage_json.hpp"
#include "snapt/relay/top.hpp"
#include "snapt/users/user_commands.hpp"

#include <memory>
#include <utility>

namespace continuo::snapt::users {

using daemon::utc_us;

void RequestDesk::on_request(const report::JsonValue& request, const host::UnixReply& reply) {
    const std::string command = request.text("command");
    if (command == "usage") {
        answer_usage(request, reply);
    } else if (command == "user") {
        answer_user(request, reply);
    } else if (command == "disconnect") {
        reply.finish(disconnect(request) + "\n");
    } else if (command == "drain") {
        reply.finish(drain(request) + "\n");
    } else if (command == "top") {
        reply.finish(relay::top_json(sources_.relay, request, sources_.loop.now()) + "\n");
    } else {
        reply.finish(sources_.answer(command, dataplane::page_of(request)) + "\n");
    }
}

// A session id takes precedence over a user of that name.
std::string RequestDesk::disconnect(const report::JsonValue& request) {
    const std::string who = request.text("who");
    Admission::Ended ended = sources_.admission.disconnect_session(who);
    if (!ended.is_any()) {
        ended = sources_.admission.disconnect_user(who);
    }
    if (!ended.is_any()) {
        return report::error_json("\"" + who + "\" has no session, and is none");
    }
    report::JsonWriter json;
    json.begin_object().field("who", who);
    json.field("sessions_ended", static_cast<uint64_t>(ended.sessions));
    json.field("logins_ended", static_cast<uint64_t>(ended.logins)).end_object();
    return json.take();
}

std::string RequestDesk::drain(const report::JsonValue& request) {
    const std::string action = request.text("action");
    if (action == "begin") {
        const auto most_ms = request["timeout_ms"].unsigned_integer();
        if (most_ms && *most_ms > kMaxDrainMs) {
            return report::error_json("timeout_ms is too large");
        }
        sources_.admission.begin_drain(
            most_ms ? std::optional<base::Duration>(base::milliseconds(*most_ms)) : std::nullopt);
    } else if (action == "undo") {
        if (!sources_.admission.end_drain()) {
            return report::error_json("not draining");
        }
    } else if (action != "show") {
        return report::error_json("unknown action \"" + action + "\"");
    }
    const std::optional<Drain>& drain = sources_.admission.drain();
    report::JsonWriter json;
    json.begin_object().field("draining", drain.has_value());
    json.field("since", drain ? std::optional(drain->since_utc_s) : std::nullopt);
    json.field("ends_at",
               drain && drain->ends_utc_s != 0 ? std::optional(drain->ends_utc_s) : std::nullopt);
    json.field("sessions", sources_.relay.sessions().size());
    json.field("flows", sources_.relay.flows().shares().running_flows()).end_object();
    return json.take();
}

// Rare and short, but it writes to the disk: on the helper thread.
void RequestDesk::answer_user(const report::JsonValue& request, const host::UnixReply& reply) {
    std::string failure;
    const auto wanted = parse_user_request(request, failure);
    if (!wanted) {
        reply.finish(report::error_json(failure) + "\n");
        return;
    }
    if (wanted->action == UserAction::List) {
        sources_.admission.note_seen();
    }
    auto result = std::make_shared<UserResult>();
    const bool queued = sources_.worker.submit(
        [this, result, wanted = *wanted, config = sources_.config] {
            *result = run_user_request(sources_.users, config, wanted, utc_us(), sources_.random);
        },
        [this, result, reply, name = wanted->name, action = wanted->action] {
            size_t ended = 0;
            if (result->ends == UserResult::Ends::User) {
                ended = sources_.admission.end_user(name);
            } else if (result->ends == UserResult::Ends::Revoked) {
                ended = sources_.admission.end_revoked();
            }
            if ((result->error.empty() || ended > 0) && action != UserAction::List) {
                sources_.events.write(links::EventLog::Kind::User,
                                      {{"user", name},
                                       {"change", std::string(to_string(action))},
                                       {"sessions_ended", std::to_string(ended)}},
                                      sources_.loop.now());
            }
            reply.finish(result->json + "\n");
        });
    if (!queued) {
        reply.finish(report::error_json("busy") + "\n");
    }
}

void RequestDesk::answer_usage(const report::JsonValue& request, const host::UnixReply& reply) {
    std::string failure;
    const auto query = accounting::usage_query_from(request, failure);
    if (!query) {
        reply.finish(report::error_json(failure) + "\n");
        return;
    }
    const bool is_asked = sources_.accountant.usage(
        *query, utc_us(),
        [&loop = sources_.loop, reply](const base::Result<ledger::UsageReport>& usage) {
            loop.post(
                [reply, json = accounting::usage_answer(usage)] { reply.finish(json + "\n"); });
        });
    if (!is_asked) {
        reply.finish(report::error_json(accounting::kTooManyQuestions) + "\n");
    }
}

}  // namespace continuo::snapt::users
