// HttpServer: HTTP/1.1 on Unix sockets and loopback addresses, by libmicrohttpd. Anyone who can
// connect is a stranger: connections, bytes and time are limited, and a silent connection gives way
// to a newer one. The loop's thread only.
#pragma once

#include "common/base/result.hpp"
#include "common/base/time.hpp"
#include "common/io/event_loop.hpp"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace continuo::rest {

// Choices, not measured.
struct HttpLimits {
    size_t connections = 64;
    size_t header_bytes = 16'384;  // memory of a connection: request line, headers, buffers
    size_t body_bytes = 65'536;
    base::Duration request_time = base::seconds(10);  // until a request is complete
    base::Duration answer_time = base::seconds(60);   // until its answer is made and sent
};

struct HttpRequest {
    std::string method;
    std::string target;  // as sent
    std::string authorization;
    std::string idempotency_key;
    std::string body;
};

struct HttpAnswer {
    unsigned status = 200;
    std::string content_type;
    std::string body;
    std::vector<std::pair<std::string, std::string>> headers;
};

// Answers one request, at once or later, on the loop's thread. Copies refer to the same request;
// one that outlives its connection does nothing.
class HttpReply {
  public:
    void send(HttpAnswer answer) const;

  private:
    friend class HttpServer;
    struct Exchange;
    std::weak_ptr<Exchange> exchange_;
};

class HttpServer {
  public:
    using Handler = std::function<void(HttpRequest request, HttpReply reply)>;

    // `addresses`: paths of Unix sockets, which begin with "/", mode 0660, group `continuo`; and
    // "127.0.0.1:9348" or "[::1]:9348"; port 0: any. `loop` must outlive this. Errors: System
    // (`where` says what), InvalidConfig.
    static base::Result<std::unique_ptr<HttpServer>> listen(io::EventLoop& loop,
                                                            std::span<const std::string> addresses,
                                                            Handler handler,
                                                            const HttpLimits& limits = {});
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;
    // Closes all connections and removes the socket files.
    ~HttpServer();

    // The bound addresses, in order.
    const std::vector<std::string>& addresses() const;

    struct Counters {
        uint64_t connections = 0;  // accepted
        uint64_t requests = 0;     // complete ones
        uint64_t refused = 0;      // connections: all others were being answered
        uint64_t displaced = 0;    // connections without a request, replaced by a newer one
        uint64_t timeouts = 0;     // connections closed at their time limit
        uint64_t too_large = 0;    // bodies
    };
    const Counters& counters() const;

  private:
    friend class HttpReply;
    struct Inner;
    explicit HttpServer(std::unique_ptr<Inner> inner);
    std::unique_ptr<Inner> inner_;
};

}  // namespace continuo::rest
