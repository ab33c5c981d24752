#include "cnapt/bypass/portal_probe.hpp"

#include "common/host/system_random.hpp"

#include <algorithm>
#include <chrono>

#include <poll.h>
#include <sys/socket.h>

namespace continuo::cnapt::bypass {

using control::PortalVerdict;

namespace {

constexpr std::chrono::milliseconds kTimeout{3000};
constexpr uint16_t kHttpPort = 80;
// Documentation addresses (RFC 5737, RFC 3849) that no host has: only a box that answers for
// everybody answers there.
constexpr const char* kNobodyV4 = "192.0.2.80";
constexpr const char* kNobodyV6 = "2001:db8::80";

using Clock = std::chrono::steady_clock;

bool wait(int fd, short events, Clock::time_point until) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd ready{fd, events, 0};
    return left > 0 && ::poll(&ready, 1, static_cast<int>(left)) == 1;
}

// The answer until the peer closes, or the part received in time.
std::vector<uint8_t> exchange(int fd, const std::string& request) {
    const auto until = Clock::now() + kTimeout;
    std::vector<uint8_t> answer;
    if (!wait(fd, POLLOUT, until) || ::send(fd, request.data(), request.size(), MSG_NOSIGNAL) !=
                                         static_cast<ssize_t>(request.size())) {
        return answer;
    }
    std::array<uint8_t, 1024> buffer{};
    while (answer.size() < control::kMaxPortalAnswerBytes && wait(fd, POLLIN, until)) {
        const ssize_t count = ::recv(fd, buffer.data(), buffer.size(), 0);
        if (count <= 0) {
            break;
        }
        answer.insert(answer.end(), buffer.begin(), buffer.begin() + count);
    }
    answer.resize(std::min(answer.size(), control::kMaxPortalAnswerBytes));
    return answer;
}

control::PortalAnswer ask_at(const PortalQuestion& question, const base::Endpoint& to) {
    const auto fd = control_link::begin_connect(to, question.uplink, question.fwmark);
    if (!fd) {
        return {};
    }
    host::SystemRandom random;
    control::PortalRequest request;
    random.fill(request.nonce);
    request.tag = control::portal_tag(question.key, control::PortalSide::Node, request.nonce);
    const std::string host = to.to_string();
    const auto answer = exchange(fd->value(), control::format_portal_request(request, host));
    return control::judge_portal_answer(
        answer, control::portal_tag(question.key, control::PortalSide::Snapt, request.nonce), host);
}

}  // namespace

control::PortalAnswer ask_for_portal(const PortalQuestion& question) {
    const base::Endpoint snapt_http{question.snapt.address, kHttpPort};
    control::PortalAnswer answer = ask_at(question, question.snapt);
    if (answer.verdict == PortalVerdict::None && question.snapt.port != kHttpPort) {
        answer = ask_at(question, snapt_http);
    }
    if (answer.verdict != PortalVerdict::Portal) {
        return answer;
    }
    const char* const nobody = question.snapt.address.is_v4() ? kNobodyV4 : kNobodyV6;
    const control::PortalAnswer other =
        ask_at(question, {base::IpAddress::parse(nobody).value(), kHttpPort});
    if (other.verdict != PortalVerdict::Portal) {
        return {};  // a web server of the SNAPT's own host
    }
    return answer.url.empty() ? other : answer;
}

}  // namespace continuo::cnapt::bypass
