// ControlDoor: questions for a captive portal, which arrive on the ports of control links
// (docs/PROTOCOL.md section 4.9).
#include "snapt/links/control_door.hpp"

#include <array>
#include <cerrno>

#include <sys/socket.h>

namespace continuo::snapt::links {

// The deadline and limits of an unfinished handshake apply.
void ControlDoor::on_portal_readable(Stranger& stranger) {
    ControlConnection& connection = *stranger.connection;
    stranger.poller->watch(true, false);
    std::array<uint8_t, control::kMaxPortalRequestBytes> buffer{};
    const ssize_t count = ::recv(connection.stream.fd(), buffer.data(), buffer.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (count <= 0 || stranger.lingering) {
        remove(stranger);
        return;
    }
    std::vector<uint8_t>& come = stranger.portal_input;
    come.insert(come.end(), buffer.begin(), buffer.begin() + count);
    const control::PortalInput input = control::parse_portal_request(come);
    if (input.needs_more) {
        return;
    }
    const auto answer = input.request ? desk_->answer(*input.request, random_, thread_.loop().now())
                                      : std::optional<std::string>();
    if (!answer ||
        ::send(connection.stream.fd(), answer->data(), answer->size(), MSG_NOSIGNAL) < 0) {
        remove(stranger);
        return;
    }
    ++shared_.counts.portal_checks;
    stranger.lingering = true;
    connection.stream.shutdown_write();
    deadlines_.set(connection.id, stranger.deadline, thread_.loop().now() + kLinger);
}

}  // namespace continuo::snapt::links
