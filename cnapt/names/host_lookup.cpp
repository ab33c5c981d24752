#include "cnapt/names/host_lookup.hpp"

#include "cnapt/names/name_lookup.hpp"
#include "cnapt/names/resolv_conf.hpp"
#include "cnapt/settings/node_config.hpp"
#include "common/host/system_random.hpp"
#include "common/io/file.hpp"

#include <algorithm>
#include <utility>

namespace continuo::cnapt::names {

namespace {

constexpr uint16_t kNamePort = 53;
constexpr size_t kMaxQueuedLookups = 2;  // one is under way at most

// Below a name that is reserved for such questions (RFC 2606).
std::string fresh_name() {
    constexpr std::string_view kDigits = "0123456789abcdef";
    uint64_t number = host::SystemRandom().u64();
    std::string label;
    for (int i = 0; i < 16; ++i, number >>= 4) {
        label.push_back(kDigits[number & 0xFU]);
    }
    return label + ".example.org";
}

bool any_answers(const std::vector<base::IpAddress>& servers) {
    const std::string name = fresh_name();
    return std::any_of(servers.begin(), servers.end(), [&](const base::IpAddress& server) {
        return answers_names({server, kNamePort}, 0, name);
    });
}

std::string list_of(const std::vector<base::IpAddress>& servers) {
    std::string text;
    for (const base::IpAddress& server : servers) {
        text += (text.empty() ? "" : ", ") + server.to_string();
    }
    return text;
}

}  // namespace

HostLookupAnswer look_up_as_host(const std::vector<base::IpAddress>& servers) {
    HostLookupAnswer answer;
    const auto text = io::read_file(std::string(kResolvConf), kMaxResolvConfBytes);
    answer.asked = text ? name_servers(*text) : std::vector<base::IpAddress>{};
    answer.asked.resize(std::min(answer.asked.size(), settings::kMaxNameServers));
    answer.is_answered = any_answers(answer.asked);
    answer.is_there = answer.is_answered || any_answers(servers);
    return answer;
}

HostLookup::HostLookup(io::EventLoop& loop,
                       std::vector<base::IpAddress> servers,
                       std::function<void()> on_change)
    : loop_(loop)
    , servers_(std::move(servers))
    , on_change_(std::move(on_change))
    , worker_(servers_.empty()
                  ? nullptr
                  : std::make_unique<io::WorkerThread>(loop, "cnapt-lookup", kMaxQueuedLookups)) {}

// Does not wait for name servers.
HostLookup::~HostLookup() {
    if (worker_ != nullptr) {
        worker_->abandon();
    }
}

void HostLookup::on_tick(bool is_in_tunnel) {
    if (is_in_tunnel != std::exchange(is_in_tunnel_, is_in_tunnel)) {
        ++turns_;
        failures_ = 0;
        ask_at_ = {};
        set_failure({});
    }
    if (!is_in_tunnel || is_busy_ || worker_ == nullptr || loop_.now() < ask_at_) {
        return;
    }
    auto answer = std::make_shared<HostLookupAnswer>();
    is_busy_ = worker_->submit([answer, servers = servers_] { *answer = look_up_as_host(servers); },
                               [this, answer, turn = turns_] {
                                   is_busy_ = false;
                                   if (turn == turns_) {
                                       judge(*answer);
                                   }
                               });
}

void HostLookup::judge(const HostLookupAnswer& answer) {
    // Silent servers prove nothing about the host's resolver.
    failures_ = answer.is_there && !answer.is_answered ? failures_ + 1 : 0;
    ask_at_ = loop_.now() + (answer.is_answered ? kHostLookupInterval
                             : answer.is_there  ? kHostLookupAgain
                                                : kHostLookupSilent);
    if (answer.is_answered) {
        set_failure({});
    } else if (failures_ >= kHostLookupFailures) {
        const std::string who = answer.asked.empty() ? "resolv.conf names no server"
                                                     : list_of(answer.asked) + " does not answer";
        set_failure(who + ", though " + list_of(servers_) + " does through the tunnel");
    }
}

void HostLookup::set_failure(std::string text) {
    if (text != failure_) {
        failure_ = std::move(text);
        on_change_();
    }
}

}  // namespace continuo::cnapt::names
