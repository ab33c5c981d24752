#include "snapt/rest_service.hpp"

#include "common/base/log.hpp"
#include "common/config/units.hpp"
#include "common/daemon/handler_gate.hpp"
#include "common/daemon/startup.hpp"
#include "common/io/worker_thread.hpp"
#include "common/report/json.hpp"
#include "common/report/json_value.hpp"
#include "snapt/accounting/usage_json.hpp"
#include "snapt/ledger/ledger.hpp"
#include "snapt/links/control_thread.hpp"
#include "snapt/rest/metrics.hpp"
#include "snapt/rest_books.hpp"

#include <deque>
#include <map>
#include <optional>
#include <utility>

namespace continuo::snapt {

using base::Result;
using report::JsonValue;
using rest::Call;
using rest::Operation;
using rest::Outcome;
using rest::Scope;

namespace {

constexpr std::string_view kBusy = "too many questions wait; ask again later";

std::string_view command_of(Operation operation) {
    switch (operation) {
    case Operation::Sessions:
        return "sessions";
    case Operation::Flows:
        return "flows";
    default:
        return "status";  // Status, Metrics, Sinks
    }
}

// The page of flows that is asked for. Nothing when the parameter is wrong.
std::optional<size_t> page_of(const Call& call) {
    if (call.operation != Operation::Flows) {
        return 0;
    }
    return config::parse_unsigned(call.target.value("after").value_or("0"), SIZE_MAX);
}

}  // namespace

struct RestService::Inner final : rest::Backend {
    // An answer of the data loop, and the requests that wait for the next one.
    struct Live {
        std::string json;
        base::TimePoint at{};
        bool is_known = false;
        std::vector<std::function<void()>> waiting;
    };

    explicit Inner(RestSources from) : sources(std::move(from)), gate(thread.loop(), *this) {}

    void run(Call call, Done done) override;
    void dispatch(const Call& call, const Done& done);
    void ask_live(const Call& call, const Done& done);
    void on_live(const std::string& command, const std::string& json);
    void answer_live(const Call& call, const Done& done);
    // Pages of flows behind the first.
    void ask_page(size_t after, const Done& done);
    void ask_next_page();
    void answer_usage(const Call& call, const Done& done);
    void answer_books(const Call& call, const Done& done);
    void end_session(const Call& call, const Done& done);
    std::string me(const Call& call) const;
    // Counts a question of the token until its answer; nothing when it has too many.
    std::optional<Done> counted(const std::string& token, const Done& done);

    RestSources sources;
    std::string name;
    links::ControlThread thread{"snapt-rest", kRestNiceness};
    daemon::HandlerGate<Inner> gate;
    std::unique_ptr<RestBooks> books;
    std::unique_ptr<io::WorkerThread> worker;  // before `books` goes
    std::unique_ptr<rest::TokenStore> tokens;
    std::unique_ptr<rest::Api> api;
    std::unique_ptr<rest::HttpServer> server;
    std::map<std::string, Live> live;
    std::map<std::string, std::string> sessions_of;  // JSON arrays, by user
    std::map<std::string, size_t> jobs;              // by token
    std::vector<std::string> addresses;
    std::deque<std::pair<size_t, Done>> pages;  // waiting ones
    bool is_page_asked = false;
    io::DeadlineTimer page_timer{thread.loop(), [this] { ask_next_page(); }};
};

std::optional<rest::Backend::Done> RestService::Inner::counted(const std::string& token,
                                                               const Done& done) {
    size_t& count = jobs[token];
    if (count >= kMaxTokenJobs) {
        return std::nullopt;
    }
    ++count;
    return [this, token, done](Outcome outcome) {
        if (--jobs[token] == 0) {
            jobs.erase(token);
        }
        done(std::move(outcome));
    };
}

// A user that was removed has no tokens, whatever the file says.
void RestService::Inner::run(Call call, Done done) {
    const auto once = counted(call.caller.name, done);
    if (!once) {
        done(rest::problem(503, kBusy));
        return;
    }
    if (!call.is_self()) {
        dispatch(call, *once);
        return;
    }
    const auto is_there = std::make_shared<Result<bool>>(false);
    const auto shared = std::make_shared<Call>(std::move(call));
    const bool queued =
        worker->submit([this, is_there, shared] { *is_there = books->is_there(shared->caller); },
                       [this, is_there, shared, once = *once] {
                           if (!*is_there) {
                               once(outcome_of(is_there->error()));
                           } else if (!**is_there) {
                               once(rest::problem(401));
                           } else {
                               dispatch(*shared, once);
                           }
                       });
    if (!queued) {
        (*once)(rest::problem(503, kBusy));
    }
}

void RestService::Inner::dispatch(const Call& call, const Done& done) {
    switch (call.operation) {
    case Operation::Me:
        done({200, me(call)});
        break;
    case Operation::Status:
    case Operation::Sessions:
    case Operation::Flows:
    case Operation::Sinks:
    case Operation::Metrics:
        ask_live(call, done);
        break;
    case Operation::Usage:
        answer_usage(call, done);
        break;
    case Operation::EndSession:
        end_session(call, done);
        break;
    default:
        answer_books(call, done);
    }
}

std::string RestService::Inner::me(const Call& call) const {
    report::JsonWriter json;
    json.begin_object().field("token", call.caller.name);
    json.field("scope", rest::to_string(call.caller.scope));
    json.field("user", call.is_self() ? std::optional(call.caller.user) : std::nullopt);
    json.field("snapt", name).end_object();
    return json.take();
}

void RestService::Inner::ask_live(const Call& call, const Done& done) {
    const auto after = page_of(call);
    if (!after || *after > 0) {
        after ? ask_page(*after, done) : done(rest::problem(400, "after: expected a number"));
        return;
    }
    const std::string key(command_of(call.operation));
    Live& known = live[key];
    const base::TimePoint now = thread.loop().now();
    if (known.is_known && now - known.at < kLiveAge) {
        answer_live(call, done);
        return;
    }
    known.waiting.emplace_back([this, call, done] { answer_live(call, done); });
    if (known.waiting.size() > 1) {
        return;  // it has been asked already
    }
    const bool posted = sources.data_loop.post([gate = gate, answer = sources.answer, key] {
        static_cast<void>(
            gate.tell([key, json = answer(key, 0)](Inner& inner) { inner.on_live(key, json); }));
    });
    if (!posted) {
        on_live(key, "");
    }
}

void RestService::Inner::ask_page(size_t after, const Done& done) {
    if (pages.size() >= kMaxWaitingPages) {
        done(rest::problem(503, kBusy));
        return;
    }
    pages.emplace_back(after, done);
    if (page_timer.deadline() == base::kNever) {
        ask_next_page();
    }
}

void RestService::Inner::ask_next_page() {
    if (is_page_asked || pages.empty()) {
        return;
    }
    const auto [after, done] = std::move(pages.front());
    pages.pop_front();
    is_page_asked = true;
    const bool posted =
        sources.data_loop.post([gate = gate, answer = sources.answer, after = after, done = done] {
            static_cast<void>(gate.tell([done, json = answer("flows", after)](Inner& inner) {
                inner.is_page_asked = false;
                inner.page_timer.set(inner.thread.loop().refresh_now() + kPagePause);
                done({200, rest::with_large_as_text(json)});
            }));
        });
    if (!posted) {
        is_page_asked = false;
        page_timer.set(thread.loop().now() + kPagePause);
        done(rest::problem(503, kBusy));
    }
}

// Empty: it could not be asked for.
void RestService::Inner::on_live(const std::string& command, const std::string& json) {
    Live& known = live[command];
    known.json = json;
    known.at = thread.loop().refresh_now();
    known.is_known = !json.empty();
    if (command == "sessions") {
        sessions_of.clear();
        const auto all = JsonValue::parse(known.json);
        if (all) {
            for (const JsonValue& session : all->items()) {
                std::string& list = sessions_of[session.text("user")];
                list += (list.empty() ? "[" : ",") + report::json_text(session);
            }
        }
    }
    for (const auto& then : std::exchange(known.waiting, {})) {
        then();
    }
}

void RestService::Inner::answer_live(const Call& call, const Done& done) {
    const std::string& json = live[std::string(command_of(call.operation))].json;
    if (json.empty()) {
        done(rest::problem(503, kBusy));
        return;
    }
    if (call.operation == Operation::Metrics || call.operation == Operation::Sinks) {
        const auto status = JsonValue::parse(json);
        if (!status) {
            done(rest::problem(500));
        } else if (call.operation == Operation::Sinks) {
            done({200, report::json_text((*status)["sinks"])});
        } else {
            done({200,
                  rest::metrics_text(*status, server->counters(),
                                     daemon::utc_us() / config::kMicroseconds),
                  std::string(rest::kMetricsType)});
        }
        return;
    }
    if (!call.is_self()) {
        done({200, rest::with_large_as_text(json)});
        return;
    }
    const auto own = sessions_of.find(call.caller.user);
    done({200, own == sessions_of.end() ? "[]" : rest::with_large_as_text(own->second + "]")});
}

void RestService::Inner::answer_usage(const Call& call, const Done& done) {
    std::string failure;
    const auto query = rest_usage_query(call, failure);
    if (!query) {
        done(rest::problem(400, failure));
        return;
    }
    // A token of scope read reveals no prices.
    const bool has_money = call.caller.scope != Scope::Read;
    const bool is_asked = sources.accountant.usage(
        *query, daemon::utc_us(),
        [gate = gate, done, has_money](Result<ledger::UsageReport> usage) {
            if (usage && !has_money) {
                usage->price_permille.reset();
                for (ledger::UsageRow& row : usage->rows) {
                    row.gross_ud = row.discount_ud = row.net_ud = row.balance_ud = std::nullopt;
                }
            }
            Outcome outcome =
                usage ? Outcome{200, rest::with_large_as_text(accounting::usage_json(*usage))}
                      : outcome_of(usage.error());
            static_cast<void>(gate.tell(
                [done, outcome = std::move(outcome)](Inner& /*inner*/) { done(outcome); }));
        });
    if (!is_asked) {
        done(rest::problem(503, kBusy));
    }
}

void RestService::Inner::answer_books(const Call& call, const Done& done) {
    const auto outcome = std::make_shared<Outcome>();
    const bool queued =
        worker->submit([this, call, outcome] { *outcome = books->answer(call, daemon::utc_us()); },
                       [done, outcome] { done(std::move(*outcome)); });
    if (!queued) {
        done(rest::problem(503, kBusy));
    }
}

void RestService::Inner::end_session(const Call& call, const Done& done) {
    const bool posted = sources.data_loop.post([gate = gate, end = sources.end_session,
                                                id = call.name, done] {
        const bool is_ended = end(id);
        static_cast<void>(gate.tell([done, is_ended](Inner& /*inner*/) {
            done(is_ended ? Outcome{204, "", ""} : rest::problem(404, "there is no such session"));
        }));
    });
    if (!posted) {
        done(rest::problem(503, kBusy));
    }
}

RestService::RestService(RestSources sources)
    : inner_(std::make_unique<Inner>(std::move(sources))) {}

RestService::~RestService() {
    stop();
}

Result<void> RestService::start(const RestOptions& options, std::string& failure) {
    if (options.listen.empty()) {
        return {};
    }
    Inner& inner = *inner_;
    inner.name = options.name;
    const std::string folder = options.state_directory + "/";
    inner.books = std::make_unique<RestBooks>(folder + store::kLedgerFileName);
    inner.tokens = std::make_unique<rest::TokenStore>(folder + rest::kTokenFileName);
    inner.api = std::make_unique<rest::Api>(*inner.tokens, inner);
    failure = "cannot open the REST interface";
    inner.server = CTN_TRY(
        rest::HttpServer::listen(inner.thread.loop(), options.listen,
                                 [&inner](rest::HttpRequest request, const rest::HttpReply& reply) {
                                     inner.api->handle(std::move(request), reply);
                                 }));
    inner.addresses = inner.server->addresses();
    for (const std::string& address : inner.addresses) {
        base::log(base::LogLevel::Info, "web page and REST interface on %s", address.c_str());
    }
    inner.worker =
        std::make_unique<io::WorkerThread>(inner.thread.loop(), "snapt-rest-db", kMaxRestJobs);
    inner.thread.start();
    return {};
}

const std::vector<std::string>& RestService::addresses() const {
    return inner_->addresses;
}

void RestService::stop() {
    Inner& inner = *inner_;
    inner.thread.stop();
    inner.gate.shut();
    if (inner.books) {
        inner.books->end();
    }
    inner.worker.reset();
    inner.server.reset();
}

}  // namespace continuo::snapt
