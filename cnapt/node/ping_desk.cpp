#include "cnapt/node/ping_desk.hpp"

#include "common/dataplane/figures.hpp"
#include "common/report/json.hpp"
#include "common/report/status_report.hpp"

#include <algorithm>
#include <cmath>

namespace continuo::cnapt::node {

using uplinks::Uplink;

namespace {

// The round trip is measured when the answer comes; only its report is delayed. A choice, not
// measured.
constexpr base::Duration kLookInterval = base::milliseconds(5);

std::string names_of(const Node& node) {
    std::string names;
    for (const auto& link : node.links()) {
        names += (names.empty() ? "" : ", ") + link->name;
    }
    return names;
}

}  // namespace

PingDesk::PingDesk(io::EventLoop& loop, Node& node)
    : loop_(loop), node_(node), timer_(loop, [this] { look(); }) {}

SnaptLink* PingDesk::find(const std::string& snapt) const {
    for (const auto& link : node_.links()) {
        if (link->name == snapt) {
            return link.get();
        }
    }
    return nullptr;
}

std::vector<PingDesk::Asked> PingDesk::paths_of(const SnaptLink& link) const {
    std::vector<Asked> paths;
    const auto add = [&](uint8_t index, const Uplink& uplink) {
        paths.push_back({index, uplink.interface, uplink.address.to_string(),
                         link.session->paths().path(index).traffic().counters().answers});
    };
    for (const Uplink* uplink : node_.uplinks().list()) {
        if (node_.paths().is_path(link, *uplink)) {
            add(uplink->slot, *uplink);
        }
    }
    const Uplink* carrier = link.is_on_stream() && link.active_slot()
                                ? node_.uplinks().at(*link.active_slot())
                                : nullptr;
    if (carrier != nullptr) {
        add(wire::kTcpPath, *carrier);
    }
    return paths;
}

void PingDesk::ask(const std::string& snapt, OnAnswer on_answer) {
    SnaptLink* link = find(snapt);
    if (link == nullptr) {
        on_answer(report::error_json("no SNAPT \"" + snapt + "\"; there are " + names_of(node_)));
        return;
    }
    if (!link->session) {
        on_answer(report::error_json(snapt + ": no session; `cnapt snapts` shows its state, "
                                             "`cnapt doctor` what is in the way"));
        return;
    }
    if (pings_.size() >= kMaxPings) {
        end(0);
    }
    pings_.push_back(
        {snapt, paths_of(*link), loop_.refresh_now() + kPingTime, std::move(on_answer)});
    node_.ask_all(*link);
    timer_.set(loop_.now() + kLookInterval);
}

bool PingDesk::is_complete(const Ping& ping) const {
    const SnaptLink* link = find(ping.snapt);
    return link == nullptr || !link->session ||
           std::all_of(ping.paths.begin(), ping.paths.end(), [&](const Asked& asked) {
               return link->session->paths().path(asked.path).traffic().counters().answers >
                      asked.answers;
           });
}

std::string PingDesk::answer(const Ping& ping) const {
    const SnaptLink* link = find(ping.snapt);
    if (link == nullptr || !link->session) {
        return report::error_json(ping.snapt + ": the session has ended");
    }
    report::JsonWriter json;
    json.begin_object().field("snapt", ping.snapt).key("paths").begin_array();
    for (const Asked& asked : ping.paths) {
        const path::Path& path = link->session->paths().path(asked.path);
        const bool has_answered = path.traffic().counters().answers > asked.answers;
        json.begin_object();
        json.field("interface", asked.interface);
        json.field("local", asked.local);
        json.field("transport", asked.path == wire::kTcpPath ? "tcp" : "udp");
        json.field("state", path::to_string(path.state()));
        json.field("active", link->session->paths().active() == asked.path);
        json.field("answered", has_answered);
        json.field("rtt_ms",
                   has_answered
                       ? dataplane::milliseconds_or_nan(path.traffic().counters().last_round_trip)
                       : NAN,
                   dataplane::kMillisecondDigits);
        json.end_object();
    }
    json.end_array().end_object();
    return json.take();
}

void PingDesk::end(size_t number) {
    const Ping ended = std::move(pings_[number]);
    pings_.erase(pings_.begin() + static_cast<ptrdiff_t>(number));
    ended.on_answer(answer(ended));
}

void PingDesk::look() {
    const base::TimePoint now = loop_.now();
    for (size_t i = pings_.size(); i-- > 0;) {
        if (now >= pings_[i].until || is_complete(pings_[i])) {
            end(i);
        }
    }
    if (!pings_.empty()) {
        timer_.set(now + kLookInterval);
    }
}

}  // namespace continuo::cnapt::node
