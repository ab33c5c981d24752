#include "common/netlink/wireless_monitor.hpp"

#include "common/io/worker_thread.hpp"
#include "common/netlink/generic_netlink.hpp"

#include <cerrno>

#include <linux/netlink.h>
#include <linux/nl80211.h>
#include <sys/socket.h>

namespace continuo::netlink {

using base::ByteView;
using base::Errc;
using base::Error;
using base::Result;

namespace {

constexpr size_t kBlockBytes = 16384;  // more than any notification of the group
constexpr unsigned kBlocksPerWakeUp = 64;
constexpr size_t kMaxQuestions = 1;  // open at a time

struct Answer {
    bool is_station = false;
    std::optional<int> signal_dbm;
};

Answer ask(NetlinkSocket& socket, uint16_t family, uint32_t interface_index) {
    Answer answer;
    NetlinkRequest which = generic_request(family, NL80211_CMD_GET_INTERFACE);
    which.attribute(NL80211_ATTR_IFINDEX, interface_index);
    const auto found = socket.list(which, "ask for Wi-Fi interface", [&](const auto& message) {
        answer.is_station = is_station_interface(message);
    });
    if (!found || !answer.is_station) {
        return {};
    }
    NetlinkRequest access_point = generic_request(family, NL80211_CMD_GET_STATION, NLM_F_DUMP);
    access_point.attribute(NL80211_ATTR_IFINDEX, interface_index);
    const auto listed = socket.list(
        access_point, "ask for access point",
        [&](const auto& message) { answer.signal_dbm = parse_station_signal(message); },
        [&] { answer.signal_dbm.reset(); });
    static_cast<void>(listed.has_value());  // without it: not known
    return answer;
}

}  // namespace

struct WirelessMonitor::Inner {
    io::EventLoop& loop;
    std::function<void(const WirelessEvent&)> on_event;
    GenericFamily family;
    std::shared_ptr<NetlinkSocket> questions;  // the worker's socket
    io::UniqueFd fd;
    Counters counters;
    bool is_asking = false;
    std::vector<uint8_t> block = std::vector<uint8_t>(kBlockBytes);
    std::unique_ptr<io::Poller> poller;  // gone before the descriptor
    std::unique_ptr<io::WorkerThread> worker;

    explicit Inner(io::EventLoop& on) : loop(on) {}

    Result<void> subscribe();
    void on_readable();
    void note(const NetlinkMessage& message);
};

Result<void> WirelessMonitor::Inner::subscribe() {
    fd.reset(::socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_GENERIC));
    if (!fd.is_open()) {
        return Error{Errc::System, "open netlink socket", errno};
    }
    sockaddr_nl name{};
    name.nl_family = AF_NETLINK;
    if (::bind(fd.value(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
        return Error{Errc::System, "bind netlink socket", errno};
    }
    const auto group = family.group(NL80211_MULTICAST_GROUP_MLME);
    if (!group) {
        return Error{Errc::NotFound, "follow Wi-Fi"};
    }
    if (::setsockopt(fd.value(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &*group, sizeof *group) !=
        0) {
        return Error{Errc::System, "follow Wi-Fi", errno};
    }
    return {};
}

void WirelessMonitor::Inner::note(const NetlinkMessage& message) {
    ++counters.notifications;
    const auto event =
        message.type == family.id ? parse_wireless_event(message) : std::optional<WirelessEvent>();
    if (event) {
        on_event(*event);
    }
}

void WirelessMonitor::Inner::on_readable() {
    for (unsigned i = 0; i < kBlocksPerWakeUp; ++i) {
        sockaddr_nl from{};
        socklen_t length = sizeof from;
        const ssize_t got = ::recvfrom(fd.value(), block.data(), block.size(), 0,
                                       reinterpret_cast<sockaddr*>(&from), &length);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0 && errno == ENOBUFS) {
            ++counters.overruns;
            on_event(WirelessEvent{WirelessEvent::Kind::Joined, 0, {}});
            continue;
        }
        if (got < 0) {
            break;
        }
        // Only the kernel's word counts.
        if (from.nl_pid == 0) {
            for_each_message(ByteView(block).first(static_cast<size_t>(got)),
                             [this](const NetlinkMessage& message) { note(message); });
        }
    }
}

Result<std::unique_ptr<WirelessMonitor>>
WirelessMonitor::start(io::EventLoop& loop, std::function<void(const WirelessEvent&)> on_event) {
    auto inner = std::make_unique<Inner>(loop);
    inner->questions =
        std::make_shared<NetlinkSocket>(CTN_TRY(NetlinkSocket::open(NETLINK_GENERIC)));
    inner->family = CTN_TRY(find_generic_family(*inner->questions, NL80211_GENL_NAME));
    CTN_TRY(inner->subscribe());
    inner->on_event = std::move(on_event);
    Inner* raw = inner.get();
    inner->worker = std::make_unique<io::WorkerThread>(loop, "wireless", kMaxQuestions);
    inner->poller =
        std::make_unique<io::Poller>(loop, inner->fd.value(), [raw] { raw->on_readable(); });
    inner->poller->watch(true);
    return std::unique_ptr<WirelessMonitor>(new WirelessMonitor(std::move(inner)));
}

WirelessMonitor::WirelessMonitor(std::unique_ptr<Inner> inner) : inner_(std::move(inner)) {}

WirelessMonitor::~WirelessMonitor() {
    inner_->worker->abandon();  // a driver may be slow, or hang
    inner_->poller.reset();
}

bool WirelessMonitor::ask_signal(uint32_t interface_index) {
    if (inner_->is_asking) {
        return false;
    }
    auto answer = std::make_shared<Answer>();
    inner_->is_asking = inner_->worker->submit(
        [answer, socket = inner_->questions, family = inner_->family.id, interface_index] {
            *answer = ask(*socket, family, interface_index);
        },
        [raw = inner_.get(), answer, interface_index] {
            raw->is_asking = false;
            if (answer->is_station) {
                raw->on_event(WirelessEvent{WirelessEvent::Kind::Signal, interface_index,
                                            answer->signal_dbm});
            }
        });
    inner_->counters.questions += inner_->is_asking ? 1U : 0U;
    return inner_->is_asking;
}

const WirelessMonitor::Counters& WirelessMonitor::counters() const {
    return inner_->counters;
}

}  // namespace continuo::netlink
