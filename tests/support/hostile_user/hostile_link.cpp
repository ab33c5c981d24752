#include "tests/support/hostile_user/hostile_link.hpp"

#include "common/daemon/link_pump.hpp"
#include "common/io/socket_address.hpp"

#include <algorithm>
#include <chrono>

#include <fcntl.h>
#include <poll.h>

namespace continuo::tests {

base::TimePoint clock_now() {
    return std::chrono::steady_clock::now();
}

HostileLink::HostileLink(io::UniqueFd fd, const control::TlsContext& context)
    : stream_(std::move(fd)), control_(context, random_, nullptr), began_(clock_now()) {}

std::unique_ptr<HostileLink> HostileLink::connect(const Account& account, const std::string& node) {
    static const control::TlsContext context = *control::TlsContext::client();
    const io::SocketAddress to(account.snapt);
    io::UniqueFd fd(::socket(to.data()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.is_open() ||
        (::connect(fd.value(), to.data(), to.size()) != 0 && errno != EINPROGRESS)) {
        return nullptr;
    }
    std::unique_ptr<HostileLink> link(new HostileLink(std::move(fd), context));
    if (!link->control_.start(account.parameters(node, link->random_), link->began_)) {
        return nullptr;
    }
    return link;
}

std::unique_ptr<HostileLink>
HostileLink::open(const Account& account, const std::string& node, base::Duration patience) {
    auto link = connect(account, node);
    const base::TimePoint until = clock_now() + patience;
    while (link && link->state() == State::Opening && clock_now() < until) {
        link->wait_and_step(until - clock_now());
    }
    return link;
}

bool HostileLink::wait_and_step(base::Duration at_most) {
    pollfd entry{fd(),
                 static_cast<short>(has_unsent_ || established_ == std::nullopt
                                        ? POLLIN | (has_unsent_ ? POLLOUT : 0)
                                        : POLLIN),
                 0};
    if (!established_ && control_.has_bytes()) {
        entry.events |= POLLOUT;
    }
    static_cast<void>(::poll(&entry, 1, std::max(0, static_cast<int>(base::to_ms(at_most) + 1))));
    return step();
}

bool HostileLink::step() {
    if (state_ == State::Refused || state_ == State::Lost) {
        return false;
    }
    const base::Result<bool> more = stream_.drain([this](base::ByteView bytes) {
        control_.on_bytes(bytes, clock_now());
        return true;
    });
    const bool is_pending =
        !more && (more.error().sys_errno == ENOTCONN || more.error().sys_errno == EINPROGRESS);
    if (!is_pending && (!more || !*more)) {
        control_.on_transport_closed(clock_now());
    }
    take_events();
    const auto flushed =
        stream_.flush([this](base::MutableByteView to) { return control_.poll_bytes(to); });
    has_unsent_ = flushed && !*flushed;
    if (control_.state() == control::ClientState::Closed && state_ != State::Refused) {
        state_ = State::Lost;
    }
    return state_ == State::Opening || state_ == State::Open;
}

void HostileLink::take_events() {
    while (const auto event = control_.poll_event()) {
        if (const auto* established = std::get_if<control::Established>(&*event)) {
            established_ = *established;
            state_ = State::Open;
        } else if (std::holds_alternative<control::Rejected>(*event)) {
            state_ = State::Refused;
        } else if (const auto* reply = std::get_if<control::UsageReply>(&*event)) {
            last_request = reply->request;
            ++answers;
        }
    }
}

}  // namespace continuo::tests
