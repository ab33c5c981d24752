// reach_probe.hpp: logins.
#include "cnapt/control_link/reach_probe.hpp"
#include "cnapt/control_link/tcp_connect.hpp"
#include "common/host/system_random.hpp"
#include "common/io/tcp_stream.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include <poll.h>

namespace continuo::cnapt::control_link {

using Kind = LoginReach::Kind;

namespace {

using Clock = std::chrono::steady_clock;

// RFC 8446 section 5.1: bytes with which a TLS server may begin.
constexpr uint8_t kTlsAlert = 21;
constexpr uint8_t kTlsHandshake = 22;
// Time for the peer to read the last message.
constexpr base::Duration kFarewell = base::milliseconds(500);

bool wait(int fd, bool wants_write, Clock::time_point until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    const short events = wants_write ? short{POLLIN | POLLOUT} : short{POLLIN};
    pollfd ready{fd, events, 0};
    return left > 0 && ::poll(&ready, 1, static_cast<int>(left)) == 1;
}

// One connection to a control port; keeps the first byte received.
class Dialogue {
  public:
    Dialogue(io::UniqueFd fd, Clock::time_point until) : stream_(std::move(fd)), until_(until) {}

    enum class End : uint8_t { Done, Closed, TimeOver };
    // Sends the bytes from `poll` and passes received ones to `take`, until `is_done`.
    template <typename Poll, typename Take, typename IsDone>
    End run(const Poll& poll, const Take& take, const IsDone& is_done) {
        const auto keep = [&](base::ByteView bytes) {
            first_ = first_.value_or(bytes.front());
            take(bytes);
            return true;
        };
        for (;;) {
            const base::Result<bool> flushed = stream_.flush(poll);
            if (is_done()) {
                return End::Done;
            }
            if (!flushed) {
                return End::Closed;
            }
            if (!wait(stream_.fd(), !*flushed, until_)) {
                return End::TimeOver;
            }
            const base::Result<bool> more = stream_.drain(keep);
            if (!is_done() && (!more || !*more)) {
                return End::Closed;
            }
        }
    }
    // Sends the rest and gives the peer time to read it.
    template <typename Poll>
    void part(const Poll& poll) {
        until_ = std::min(until_, Clock::now() + kFarewell);
        if (stream_.flush(poll)) {
            stream_.shutdown_write();
            static_cast<void>(run([](base::MutableByteView) { return size_t{0}; },
                                  [](base::ByteView) {}, [] { return false; }));
        }
    }
    // The kind of failure of a handshake that ended by `end`.
    Kind failure(End end) const {
        if (end == End::TimeOver) {
            return Kind::Silent;
        }
        if (!first_) {
            return Kind::Closed;
        }
        return first_ == kTlsAlert || first_ == kTlsHandshake ? Kind::Refused : Kind::NoTls;
    }

  private:
    io::TcpStream stream_;
    Clock::time_point until_;
    std::optional<uint8_t> first_;
};

// Only the handshake: it proves the key, and the SNAPT makes no session of it.
void prove_key(const LoginQuestion& question,
               const control::TlsContext& context,
               Dialogue& dialogue,
               LoginReach& reach) {
    host::SystemRandom random;
    const control::ClientParameters& parameters = question.parameters;
    const auto channel = control::TlsChannel::connect(
        context, control::encode_identity(parameters.identity, parameters.identity_key, random),
        control::derive_psk(parameters.key, parameters.realm));
    if (!channel) {
        reach.sys_errno = channel.error().sys_errno;
        reach.kind = Kind::Unreached;
        return;
    }
    control::TlsChannel& tls = **channel;
    const auto poll = [&tls](base::MutableByteView to) { return tls.poll_bytes(to); };
    const auto end = dialogue.run(
        poll, [&tls](base::ByteView bytes) { (void)tls.on_bytes(bytes); },
        [&tls] { return tls.is_established() || tls.has_failed(); });
    if (tls.is_established()) {
        reach.kind = Kind::LetIn;
        tls.shutdown();
        dialogue.part(poll);
    } else {
        reach.kind = dialogue.failure(end);
    }
}

void take_event(const control::ClientEvent& event, LoginReach& reach) {
    if (const auto* established = std::get_if<control::Established>(&event)) {
        reach.kind = Kind::LetIn;
        reach.accept = established->accept;
    } else if (const auto* rejected = std::get_if<control::Rejected>(&event)) {
        reach.kind = rejected->reject.reason == control::RejectReason::OtherSnapt ? Kind::OtherSnapt
                                                                                  : Kind::Rejected;
        reach.reject = rejected->reject;
    } else if (const auto* closed = std::get_if<control::LinkClosed>(&event)) {
        const bool is_handshake = closed->cause == control::CloseCause::LoginRefused ||
                                  closed->cause == control::CloseCause::HandshakeFailed;
        reach.kind = closed->cause == control::CloseCause::WrongSnapt ? Kind::OtherSnapt
                     : is_handshake                                   ? Kind::Refused
                                                                      : Kind::Closed;
    }
}

// Logs in with HELLO, and ends the session with CLOSE.
void log_in(const LoginQuestion& question,
            const control::TlsContext& context,
            Dialogue& dialogue,
            LoginReach& reach) {
    host::SystemRandom random;
    control::ClientControl client(context, random, nullptr);
    if (const auto started = client.start(question.parameters, Clock::now()); !started) {
        reach.kind = Kind::Unreached;
        return;
    }
    std::optional<control::ClientEvent> event;
    const auto poll = [&client](base::MutableByteView to) { return client.poll_bytes(to); };
    const auto end = dialogue.run(
        poll, [&client](base::ByteView bytes) { client.on_bytes(bytes, Clock::now()); },
        [&client, &event] {
            if (!event) {
                event = client.poll_event();
            }
            return event.has_value();
        });
    if (!event) {
        reach.kind = dialogue.failure(end);
        return;
    }
    take_event(*event, reach);
    if (reach.kind == Kind::Refused) {
        reach.kind = dialogue.failure(end);
    }
    if (reach.kind == Kind::LetIn) {
        client.close(control::CloseReason::Shutdown, {});
        dialogue.part(poll);
    }
}

}  // namespace

LoginReach probe_login(const LoginQuestion& question) {
    const auto began = Clock::now();
    const auto until = began + question.time;
    LoginReach reach;
    reach.kind = Kind::Unreached;
    const auto context = control::TlsContext::client();
    auto fd = begin_connect(question.to, {}, question.fwmark);
    if (!context || !fd) {
        reach.sys_errno = fd ? ENOMEM : fd.error().sys_errno;
        return reach;
    }
    int error = ETIMEDOUT;
    socklen_t length = sizeof error;
    if (!wait(fd->value(), true, until) ||
        ::getsockopt(fd->value(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0) {
        reach.sys_errno = error;
        return reach;
    }
    Dialogue dialogue(std::move(*fd), until);
    if (question.says_hello) {
        log_in(question, *context, dialogue, reach);
    } else {
        prove_key(question, *context, dialogue, reach);
    }
    reach.took = Clock::now() - began;
    return reach;
}

}  // namespace continuo::cnapt::control_link
