// ControlConnection: a TCP connection and the SNAPT's end of control on it, which moves from the
// thread of strangers to that of links; and what these threads share. Included by the parts of
// ControlServer only.
#pragma once

#include "common/dataplane/stream_input.hpp"
#include "common/io/tcp_stream.hpp"
#include "snapt/control_server.hpp"
#include "snapt/hello_desk.hpp"
#include "snapt/user_links.hpp"

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

namespace continuo::snapt {

// As ControlServerCounters.
struct ControlCounts {
    std::atomic<uint64_t> accepted = 0;
    std::atomic<uint64_t> refused = 0;
    std::atomic<uint64_t> displaced = 0;
    std::atomic<uint64_t> failed_handshakes = 0;
    std::atomic<uint64_t> portal_checks = 0;
    std::atomic<uint64_t> refused_links = 0;
    std::atomic<uint64_t> refused_hellos = 0;
    std::atomic<uint64_t> pauses = 0;
    std::atomic<uint64_t> links = 0;
};

// `parameters` and `context` are constant while a thread runs. Outlives all connections.
struct ControlShared {
    explicit ControlShared(control::CredentialSource& source) : credentials(source) {}

    control::CredentialSource& credentials;  // locks what it shares
    control::ServerParameters parameters;
    std::optional<control::TlsContext> context;
    HelloDesk hellos;
    ControlCounts counts;
    UserLinks user_links;
    EventLog* events = nullptr;

    void note(EventLog::Kind kind, EventLog::Fields fields, base::TimePoint now) const {
        if (events != nullptr) {
            events->write(kind, fields, now);
        }
    }
};

// Belongs to one thread at a time. Counts itself as a link, also on its way between threads.
struct ControlConnection {
    ControlConnection(ControlShared& shared,
                      LinkId its_id,
                      const base::Endpoint& its_peer,
                      io::UniqueFd fd)
        : counts(shared.counts)
        , id(its_id)
        , from(its_peer)
        , stream(std::move(fd))
        , control(*shared.context, shared.credentials, shared.parameters, &datagrams) {
        ++counts.links;
    }
    ControlConnection(const ControlConnection&) = delete;
    ControlConnection& operator=(const ControlConnection&) = delete;
    ~ControlConnection() { --counts.links; }

    ControlCounts& counts;
    std::unique_ptr<UserLinks::Place> place;  // once it is known whose it is
    LinkId id;
    base::Endpoint from;
    io::TcpStream stream;
    dataplane::StreamInput datagrams;
    control::ServerControl control;
};

// A closed connection waits so long for the peer's end of stream, so that its last words are not
// cut by a reset.
inline constexpr base::Duration kLinger = base::seconds(1);

}  // namespace continuo::snapt
