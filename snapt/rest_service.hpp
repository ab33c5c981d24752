// RestService: the REST interface and the web page, on its own thread. Data of live sessions comes
// from the data loop, at most once a second however many ask; usage from UsageDesk; the rest from
// the ledger's database, on a helper thread.
#pragma once

#include "common/io/event_loop.hpp"
#include "snapt/accounting/accountant.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::snapt {

// Its priority is below that of data. A choice, not measured.
inline constexpr int kRestNiceness = 10;
// How long an answer of the data loop is reused.
inline constexpr base::Duration kLiveAge = base::seconds(1);
// Pages of flows behind the first are asked of it one at a time, so far apart, and not kept; more
// that wait are refused. Choices: a page takes about 2 ms of the data loop.
inline constexpr base::Duration kPagePause = base::milliseconds(20);
inline constexpr size_t kMaxWaitingPages = 32;
// Questions to the database that wait, of all; and of one token together with those for usage.
inline constexpr size_t kMaxRestJobs = 64;
inline constexpr size_t kMaxTokenJobs = 4;

struct RestOptions {
    std::vector<std::string> listen;  // as HttpServer::listen()
    std::string name;                 // the SNAPT's
    std::string state_directory;
};

// All must outlive the service's thread.
struct RestSources {
    io::EventLoop& data_loop;
    accounting::Accountant& accountant;
    // On the data loop: the JSON of `status`, `sessions` or a page of `flows`.
    std::function<std::string(std::string_view command, size_t after)> answer;
    // On the data loop: ends the session of that id (hex). False: there is none.
    std::function<bool(const std::string& session_id)> end_session;
};

class RestService {
  public:
    explicit RestService(RestSources sources);
    RestService(const RestService&) = delete;
    RestService& operator=(const RestService&) = delete;
    ~RestService();

    // Starts nothing without an address. Errors: System; `failure` begins the sentence.
    base::Result<void> start(const RestOptions& options, std::string& failure);
    // The bound addresses.
    const std::vector<std::string>& addresses() const;
    // Closes everything and ends the threads. Later answers are dropped until this object is
    // destroyed, which must be after the accountant.
    void stop();

  private:
    struct Inner;
    std::unique_ptr<Inner> inner_;
};

}  // namespace continuo::snapt
