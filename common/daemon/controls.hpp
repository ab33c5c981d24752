// Controls: inputs of a running daemon outside its data path: the command socket, SIGHUP (reload),
// SIGTERM and SIGINT (stop), SIGUSR2 (stop for a restart), and a tick once a second. Belongs to the
// data loop.
#pragma once

#include "common/host/unix_server.hpp"
#include "common/io/event_loop.hpp"
#include "common/report/json_value.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace continuo::daemon {

inline constexpr base::Duration kTick = base::seconds(1);
// Requests are short: one JSON object in a line.
inline constexpr report::JsonLimits kRequestLimits = {size_t{64} * 1024, 4096, 16};

struct ControlHandlers {
    // A request on the socket other than `reload`, parsed and raw. The answer may come later;
    // finish() expects its line feed.
    std::function<void(const report::JsonValue& request,
                       const host::UnixRequest& raw,
                       const host::UnixReply& reply)>
        on_request;
    // The answer to the command, without line feed.
    std::function<std::string()> on_reload;
    std::function<void()> on_tick;
};

class Controls {
  public:
    // `loop` must outlive this.
    Controls(io::EventLoop& loop, ControlHandlers handlers, base::Duration tick = kTick);
    Controls(const Controls&) = delete;
    Controls& operator=(const Controls&) = delete;
    ~Controls();

    // Listens, watches signals and ticks from now on. Errors: as host::UnixServer::listen.
    base::Result<void> open(const std::string& socket);
    // No more requests; open connections end.
    void close();
    // The next run follows at once, so its part of the host's network configuration stays.
    bool stops_for_restart() const { return stops_for_restart_; }

  private:
    void on_request(const host::UnixRequest& request, const host::UnixReply& reply) const;
    void on_signal(int signal);

    io::EventLoop& loop_;
    ControlHandlers handlers_;
    base::Duration interval_;
    std::unique_ptr<host::UnixServer> server_;
    std::unique_ptr<io::SignalWatcher> signals_;
    io::DeadlineTimer tick_;
    bool stops_for_restart_ = false;
};

}  // namespace continuo::daemon
