#include "cnapt/names/dns_switch.hpp"

#include "cnapt/names/name_lookup.hpp"
#include "cnapt/names/resolved_keeper.hpp"
#include "common/base/log.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include <poll.h>
#include <sys/socket.h>

namespace continuo::cnapt::names {

using base::log;
using base::LogLevel;

namespace {

constexpr int kEndTimeoutMs = 5000;
// Before a helper that was lost is looked for again; doubles while none lives as long.
constexpr base::Duration kFirstHelperRest = base::seconds(1);
constexpr base::Duration kLongestHelperRest = base::seconds(60);

// Longest time until a resolved that hangs is told in dns.state (OPERATIONS says half a minute):
// its link is read back, resolvectl gives up, and it leaves questions unanswered. The helper and
// the data loop look once a second.
constexpr base::Duration kLook = base::seconds(1);
static_assert(kResolvedLookInterval + kLook + kResolvectlTimeout + kLook +
                  kHostLookupFailures * kNameAnswerTime +
                  (kHostLookupFailures - 1) * (kHostLookupAgain + kLook) <=
              base::seconds(30));

bool take_word(std::string_view& text, std::string_view word) {
    if (text.substr(0, word.size()) != word) {
        return false;
    }
    text.remove_prefix(word.size());
    return true;
}

}  // namespace

DnsSwitch::DnsSwitch(io::EventLoop& loop,
                     std::vector<base::IpAddress> servers,
                     DnsConnection helper,
                     std::function<void()> on_change)
    : loop_(loop)
    , servers_(std::move(servers))
    , helper_(std::move(helper.fd))
    , socket_(std::move(helper.socket))
    , rest_(kFirstHelperRest)
    , on_change_(std::move(on_change))
    , lookup_(loop, servers_, [this] { on_lookup(); }) {
    if (!helper_.is_open()) {
        state_ = servers_.empty() ? "off" : "failed";
        return;
    }
    watch();
}

DnsSwitch::~DnsSwitch() = default;

void DnsSwitch::watch() {
    connected_at_ = loop_.now();
    poller_ = std::make_unique<io::Poller>(loop_, helper_.value(), [this] { on_readable(); });
    poller_->watch(true);
    on_readable();  // it may have spoken already
}

void DnsSwitch::set_resolved_told(bool is_told) {
    if (is_told != std::exchange(is_resolved_told_, is_told)) {
        lookup_.ask_soon();
        on_change_();
    }
}

void DnsSwitch::on_lookup() {
    if (!lookup_.failure().empty()) {
        log(LogLevel::Warning, "names do not resolve: %s", lookup_.failure().c_str());
    } else if (state_ == "tunnel") {
        log(LogLevel::Info, "names resolve again");
    }
}

void DnsSwitch::set_in_tunnel(bool is_in_tunnel, bool is_usable) {
    lookup_.on_tick(state_ == "tunnel" && is_usable);
    if (!helper_.is_open()) {
        connect_again();
    }
    if (!helper_.is_open() || has_asked_ == is_in_tunnel) {
        return;
    }
    const std::string_view text = is_in_tunnel ? "tunnel" : "plain";
    if (::send(helper_.value(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) > 0) {
        has_asked_ = is_in_tunnel;  // else with the next tick
    }
}

void DnsSwitch::connect_again() {
    if (loop_.now() < connect_at_) {
        return;
    }
    if (auto connected = connect_dns_helper(socket_)) {
        helper_ = std::move(*connected);
        connect_at_ = base::kNever;
        watch();
    } else {
        rest_ = std::min(2 * rest_, kLongestHelperRest);
        connect_at_ = loop_.now() + rest_;
    }
}

void DnsSwitch::on_readable() {
    while (helper_.is_open() && receive()) {
    }
}

bool DnsSwitch::receive() {
    std::array<char, kMaxDnsMessageBytes> buffer{};
    const ssize_t count = ::recv(helper_.value(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count > 0) {
        on_message({buffer.data(), static_cast<size_t>(count)});
        return true;
    }
    if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
        lose();
    }
    return false;
}

void DnsSwitch::on_message(std::string_view text) {
    if (take_word(text, "original")) {
        original_.clear();
        while (!text.empty()) {
            const size_t end = text.find(' ');
            const auto address = base::IpAddress::parse(text.substr(0, end));
            if (address) {
                original_.push_back(*address);
            }
            text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
        }
    } else if (text == "ready") {
        has_asked_ = false;
        state_ = "plain";
        error_.clear();
        set_resolved_told(false);
    } else if (take_word(text, "state ")) {
        state_ = text;
        lookup_.ask_soon();
        error_.clear();
        log(LogLevel::Info, "names are looked up %s",
            state_ == "tunnel" ? "through the tunnel" : "as without it");
    } else if (text == "resolved silent") {
        lookup_.ask_soon();
    } else if (text == "resolved again") {
        ++set_again_;
        set_again_at_ = std::time(nullptr);
        log(LogLevel::Info,
            "DNS: systemd-resolved had lost the name servers of the tunnel, which were set again");
    } else if (take_word(text, "resolved ")) {
        set_resolved_told(text == "tunnel");
    } else if (take_word(text, "note ")) {
        log(LogLevel::Info, "DNS: %.*s", static_cast<int>(text.size()), text.data());
    } else if (take_word(text, "error ")) {
        state_ = "failed";
        if (error_ != text) {
            error_ = text;
            log(LogLevel::Warning, "DNS: %s", error_.c_str());
        }
    }
}

// From a failure to start, too: what it said of that stays.
void DnsSwitch::lose() {
    poller_.reset();
    helper_.reset();
    has_asked_ = false;
    if (error_.empty()) {
        error_ = "the helper that changes resolv.conf has ended";
        log(LogLevel::Warning, "DNS: %s", error_.c_str());
    }
    state_ = "failed";
    set_resolved_told(false);
    if (!socket_.empty()) {
        const bool has_lived = loop_.now() - connected_at_ >= kLongestHelperRest;
        rest_ = has_lived ? kFirstHelperRest : rest_;
        connect_at_ = loop_.now() + rest_;
        rest_ = std::min(2 * rest_, kLongestHelperRest);
    }
}

void DnsSwitch::end() {
    if (!helper_.is_open()) {
        return;
    }
    poller_.reset();
    ::shutdown(helper_.value(), SHUT_WR);
    std::array<char, kMaxDnsMessageBytes> buffer{};
    pollfd ready{helper_.value(), POLLIN, 0};
    for (;;) {
        if (::poll(&ready, 1, kEndTimeoutMs) != 1) {
            log(LogLevel::Warning, "DNS: the helper that puts resolv.conf back does not answer");
            break;
        }
        const ssize_t count = ::recv(helper_.value(), buffer.data(), buffer.size(), 0);
        if (count <= 0) {
            break;
        }
        on_message({buffer.data(), static_cast<size_t>(count)});
    }
    helper_.reset();
}

void DnsSwitch::write_status(report::JsonWriter& json, const ResolverWatch* resolvers) const {
    const bool has_own = resolvers != nullptr && state_ == "off";
    json.begin_object();
    const bool is_unanswered = !lookup_.failure().empty();
    json.field("state", has_own         ? resolvers->state()
                        : is_unanswered ? std::string_view("failed")
                                        : std::string_view(state_));
    json.key("servers").begin_array();
    for (const base::IpAddress& server : servers_) {
        json.string(server.to_string());
    }
    json.end_array();
    if (resolvers != nullptr) {
        resolvers->write_status(json);
    }
    // A look-up as programs make it, while names are to go through the tunnel.
    json.field("answered", state_ == "tunnel" ? std::optional(!is_unanswered) : std::nullopt);
    json.field("set_again", set_again_);
    json.field("set_again_at",
               set_again_ != 0 ? std::optional<int64_t>(set_again_at_) : std::nullopt);
    const std::string& error = is_unanswered ? lookup_.failure() : error_;
    json.field("error", error.empty() ? std::optional<std::string>() : std::optional(error));
    json.end_object();
}

}  // namespace continuo::cnapt::names
