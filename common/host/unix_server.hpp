// The command socket: a client sends one line, the daemon sends bytes until it closes. Mode 0660,
// group `continuo` if there is one. Loop thread only. Also the blocking client of the commands and
// the notification of the service manager.
#pragma once

#include "common/base/result.hpp"
#include "common/base/time.hpp"
#include "common/io/event_loop.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace continuo::host {

struct UnixServerLimits {
    size_t request_bytes = size_t{1} << 20;
    size_t unsent_bytes = size_t{64} << 20;             // a client that does not read is closed
    size_t clients = 64;                                // further ones are closed at once
    base::Duration request_timeout = base::seconds(5);  // until the line is there
    base::Duration idle_timeout = base::seconds(60);    // no byte moved
};

// Answers one request, at once or later, from the loop's thread. Copies refer to the same
// connection; one that outlives it does nothing.
class UnixReply {
  public:
    // Sends and keeps open, for streams. False: the client is gone.
    bool write(std::string_view bytes) const;
    // Sends, then closes.
    void finish(std::string_view bytes) const;
    bool is_open() const;

  private:
    friend class UnixServer;
    struct Connection;
    std::weak_ptr<Connection> connection_;
};

struct UnixRequest {
    std::string line;      // without the line feed
    uint32_t user_id = 0;  // the peer's (SO_PEERCRED)
    int32_t process_id = 0;
};

class UnixServer {
  public:
    using Handler = std::function<void(UnixRequest request, UnixReply reply)>;

    // Replaces a socket file that nobody listens on. Errors: System (EADDRINUSE: another daemon
    // answers there).
    static base::Result<std::unique_ptr<UnixServer>> listen(io::EventLoop& loop,
                                                            const std::string& path,
                                                            Handler handler,
                                                            const UnixServerLimits& limits = {});
    UnixServer(const UnixServer&) = delete;
    UnixServer& operator=(const UnixServer&) = delete;
    // Closes all connections and removes the socket file.
    ~UnixServer();

    struct Counters {
        uint64_t requests = 0;
        uint64_t refused_clients = 0;
        uint64_t too_long = 0;
        uint64_t timeouts = 0;
    };
    const Counters& counters() const;

  private:
    struct Inner;
    friend class UnixReply;
    explicit UnixServer(std::unique_ptr<Inner> inner);
    std::unique_ptr<Inner> inner_;
};

// Blocking: sends `line` and a line feed, returns everything until the other side closes. `timeout`
// covers the whole call. Errors: System (ECONNREFUSED, ENOENT: no daemon), WouldBlock (timeout),
// LimitReached (answer above 256 MiB).
base::Result<std::string>
unix_request(const std::string& path, std::string_view line, base::Duration timeout);
// Blocking: passes on each piece as it comes, until it returns false or the other side closes.
base::Result<void> unix_stream(const std::string& path,
                               std::string_view line,
                               const std::function<bool(std::string_view)>& each);

// Notifies the service manager, e.g. "READY=1". False: there is none (NOTIFY_SOCKET unset) or it
// does not listen.
bool notify_service_manager(std::string_view state);

}  // namespace continuo::host
