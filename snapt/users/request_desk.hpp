// RequestDesk: answers requests on the command socket. Data loop only; requests that need the disk
// run on the helper thread, or on the ledger's.
#pragma once

#include "common/base/random.hpp"
#include "common/host/unix_server.hpp"
#include "common/io/worker_thread.hpp"
#include "common/report/json_value.hpp"
#include "snapt/accounting/accountant.hpp"
#include "snapt/links/event_log.hpp"
#include "snapt/settings/snapt_config.hpp"
#include "snapt/store/user_store.hpp"
#include "snapt/users/admission.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace continuo::snapt::users {

// Longest time that a drain may be given.
inline constexpr uint64_t kMaxDrainMs = uint64_t{24} * 3600 * 1000;

// All must outlive functions posted to `loop` and `worker`.
struct RequestSources {
    io::EventLoop& loop;
    io::WorkerThread& worker;
    const settings::SnaptConfig& config;  // a reload may change it
    accounting::Accountant& accountant;
    store::UserStore& users;
    Admission& admission;
    relay::Relay& relay;
    links::EventLog& events;
    base::Random& random;
    // The JSON of all other commands (snapt/users/answers.hpp).
    std::function<std::string(std::string_view command, size_t after)> answer;
};

class RequestDesk {
  public:
    explicit RequestDesk(RequestSources sources) : sources_(std::move(sources)) {}

    // Answers one line, at once or later.
    void on_request(const report::JsonValue& request, const host::UnixReply& reply);
    // {"command":"disconnect","who":USER|SESSION}: {"who":…,"sessions_ended":n,"logins_ended":n},
    // or an error where nobody is meant.
    std::string disconnect(const report::JsonValue& request);
    // {"command":"drain","action":"begin"|"undo"|"show","timeout_ms":N}:
    // {"draining":b,"since":t|null,"ends_at":t|null,"sessions":n,"flows":n}, flows being those
    // that run (UserShares::running_flows), or an error where nothing is to be undone.
    std::string drain(const report::JsonValue& request);

  private:
    void answer_user(const report::JsonValue& request, const host::UnixReply& reply);
    void answer_usage(const report::JsonValue& request, const host::UnixReply& reply);

    RequestSources sources_;
};

}  // namespace continuo::snapt::users
