// ControlServer: questions for a captive portal, which come to the same ports as control links
// (docs/PROTOCOL.md section 4.9).
#include "snapt/control_server_inner.hpp"

#include <array>
#include <cerrno>

#include <sys/socket.h>

namespace continuo::snapt {

namespace {

// As for a closed link: its end of stream is waited for.
constexpr base::Duration kAnsweredLinger = base::seconds(1);

}  // namespace

// The deadline and the limits of an unfinished handshake hold for it.
void ControlServer::Inner::on_portal_readable(Link& link) {
    link.poller->watch(true, false);
    std::array<uint8_t, control::kMaxPortalRequestBytes> buffer{};
    const ssize_t count = ::recv(link.stream.fd(), buffer.data(), buffer.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (count <= 0 || link.lingering) {
        remove(link);
        return;
    }
    link.portal_input.insert(link.portal_input.end(), buffer.begin(), buffer.begin() + count);
    const control::PortalInput input = control::parse_portal_request(link.portal_input);
    if (input.needs_more) {
        return;
    }
    const auto answer = input.request ? desk_->answer(*input.request, random_, loop_.now())
                                      : std::optional<std::string>();
    if (!answer || ::send(link.stream.fd(), answer->data(), answer->size(), MSG_NOSIGNAL) < 0) {
        remove(link);
        return;
    }
    ++portal_checks_;
    link.lingering = true;
    link.stream.shutdown_write();
    set_deadline(link, loop_.now() + kAnsweredLinger);
}

}  // namespace continuo::snapt
