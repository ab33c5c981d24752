// PathHost: the owner of a PathManager for tests: paths that answer after a round trip or not at
// all. The manager is called at its deadlines and after each event, and at no other time.
#pragma once

#include "policy/path_manager.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::policy {

class PathHost {
  public:
    struct Asked {
        base::TimePoint at;
        Candidate candidate;
    };
    struct Way {
        bool answers = true;
        base::Duration rtt = base::milliseconds(20);
        uint16_t port = 0;  // the only one that answers; 0: all do
    };

    PathManager manager;
    base::TimePoint now{base::seconds(1000)};
    std::vector<UplinkFacts> uplinks;
    std::vector<PathView> views;
    std::vector<uint16_t> udp_ports = {9347};
    uint16_t tcp_port = 9347;
    uint16_t known_port = 0;
    bool is_busy = true;
    bool is_spread = false;
    std::vector<Asked> asked;
    std::vector<Asked> moves;
    bool has_ended_attempts = false;

    // Slot and network are the cost; 0 is the best.
    UplinkFacts& add(uint8_t slot) {
        UplinkFacts facts;
        facts.slot = slot;
        facts.local = *base::IpAddress::parse("192.168." + std::to_string(slot) + ".2");
        facts.remote = *base::IpAddress::parse("198.51.100.2");
        facts.network = slot + 1U;
        facts.cost = slot;
        uplinks.push_back(facts);
        return uplinks.back();
    }
    Way& way(uint8_t slot, Transport transport) {
        return ways_[slot][static_cast<size_t>(transport)];
    }
    // Null: there is none.
    PathView* view(uint8_t slot, Transport transport) {
        const auto found = std::find_if(views.begin(), views.end(), [&](const PathView& each) {
            return each.uplink == slot && each.transport == transport;
        });
        return found == views.end() ? nullptr : &*found;
    }
    // The way in use falls silent, and answers no questions either.
    void fall_silent(uint8_t slot, Transport transport = Transport::Udp) {
        way(slot, transport).answers = false;
        if (PathView* path = view(slot, transport)) {
            path->health = recovery::Health::Doubtful;
        }
        decide();
    }
    void recover(uint8_t slot, Transport transport = Transport::Udp) {
        way(slot, transport).answers = true;
        decide();
    }
    void decide(std::vector<uint8_t> hints = {}) {
        const PathPlan plan = manager.decide(
            {uplinks, views, udp_ports, tcp_port, hints, is_busy, is_spread, known_port}, now);
        next_at_ = plan.next_at;
        has_ended_attempts = has_ended_attempts || plan.ends_attempts;
        if (plan.activate) {
            moves.push_back({now, *plan.activate});
            leave(*plan.activate);
        }
        for (const Candidate& candidate : plan.probe) {
            asked.push_back({now, candidate});
            leave(candidate);
        }
    }
    void run(base::Duration span) {
        const base::TimePoint end = now + span;
        for (int calls = 0;; ++calls) {
            ASSERT_LT(calls, 100'000) << "the deadline does not move on";
            const auto answer = std::min_element(
                answers_.begin(), answers_.end(),
                [](const Asked& one, const Asked& other) { return one.at < other.at; });
            const base::TimePoint at =
                std::min(next_at_, answer == answers_.end() ? base::kNever : answer->at);
            if (at > end) {
                now = end;
                return;
            }
            now = std::max(now, at);
            if (answer != answers_.end() && answer->at <= now) {
                const Candidate candidate = answer->candidate;
                answers_.erase(answer);
                arrive(candidate);
            }
            decide();
        }
    }
    // In use: "udp0", "tcp1"; nothing: "-".
    std::string in_use() const { return manager.active() ? name(*manager.active()) : "-"; }
    static std::string name(const Candidate& candidate) {
        return (candidate.transport == Transport::Udp ? "udp" : "tcp") +
               std::to_string(candidate.uplink);
    }
    // Names of those asked after `since`, apart by spaces.
    static std::string names(const std::vector<Asked>& list, base::TimePoint since) {
        std::string text;
        for (const Asked& each : list) {
            if (each.at >= since) {
                text += (text.empty() ? "" : " ") + name(each.candidate);
            }
        }
        return text;
    }

  private:
    void leave(const Candidate& candidate) {
        if (candidate.transport == Transport::Udp) {
            view_of(candidate);
        }
        const Way& taken = way(candidate.uplink, candidate.transport);
        if (taken.answers && (taken.port == 0 || taken.port == candidate.to.port)) {
            answers_.push_back({now + taken.rtt, candidate});
        }
    }
    void arrive(const Candidate& candidate) {
        if (!way(candidate.uplink, candidate.transport).answers) {
            return;  // fallen silent meanwhile
        }
        PathView& path = view_of(candidate);
        path.port = candidate.to.port;
        path.is_validated = true;
        path.health = recovery::Health::Usable;
        path.answered_at = now;
        path.smoothed_rtt = way(candidate.uplink, candidate.transport).rtt;
        path.probe_timeout = 3 * path.smoothed_rtt;
    }
    PathView& view_of(const Candidate& candidate) {
        if (PathView* known = view(candidate.uplink, candidate.transport)) {
            return *known;
        }
        PathView path;
        path.uplink = candidate.uplink;
        path.transport = candidate.transport;
        path.port = candidate.to.port;
        views.push_back(path);
        return views.back();
    }

    std::array<std::array<Way, kTransports>, PathManager::kMostUplinks> ways_;
    std::vector<Asked> answers_;
    base::TimePoint next_at_ = base::kNever;
};

// In use for long; nothing else has answered lately.
inline PathHost host_of(size_t uplinks) {
    PathHost host;
    for (uint8_t slot = 0; slot < uplinks; ++slot) {
        host.add(slot);
    }
    host.decide();
    host.run(base::seconds(100));
    EXPECT_EQ(host.in_use(), "udp0");
    host.asked.clear();
    host.moves.clear();
    host.has_ended_attempts = false;
    return host;
}

}  // namespace continuo::policy
