// LearnedSnapts: SNAPTs that are not in the configuration but in the directory of one that is
// (docs/PROTOCOL.md section 4.3). Bookkeeping only. It lasts longer than the process, in a file, so
// that flows find their SNAPT after a restart, and the node a SNAPT while the configured one is
// away.
#pragma once

#include "common/config/values.hpp"
#include "common/control/message.hpp"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::cnapt {

// Each costs a control link, and 90 KB a day: PROTOCOL 4.6.
inline constexpr size_t kMaxLearnedSnapts = 7;

struct LearnedSnapt {
    std::vector<config::HostPort> addresses;
    std::string told_by;  // the first that did, of the configuration: its identity key is used
    bool operator==(const LearnedSnapt&) const = default;
};

struct SnaptOffer {
    double load = 0;   // 0 to 1
    double price = 1;  // of the plan's
};

class LearnedSnapts {
  public:
    LearnedSnapts(std::string realm, std::set<std::string> configured)
        : realm_(std::move(realm)), configured_(std::move(configured)) {}

    // Replaces what the teller told before. SNAPTs are learned from configured ones alone, so that
    // two that name each other do not stay for ever; of others the offers are taken. Entries of
    // another realm, with bad names or addresses, or beyond kMaxLearnedSnapts are left out. Gives
    // whether all() is another.
    bool take(const std::string& teller, const control::Directory& directory);

    // By name. None is ever taken away: it may have flows.
    const std::map<std::string, LearnedSnapt>& all() const { return all_; }
    // It may have new flows: in the configuration, in the latest directory of a SNAPT of it, or
    // known from an earlier run, of whose teller nothing has been heard.
    bool is_listed(const std::string& name) const;
    SnaptOffer offer(const std::string& name) const;
    uint64_t left_out() const { return left_out_; }

    // JSON, of those that are listed.
    std::string text() const;
    // What is no such text, or was told by a SNAPT that is not configured, is left out.
    void restore(std::string_view text);

  private:
    bool is_known(const std::string& name) const {
        return configured_.contains(name) || all_.contains(name);
    }
    bool learn(const std::string& name, LearnedSnapt snapt);

    std::string realm_;
    std::set<std::string> configured_;
    std::map<std::string, LearnedSnapt> all_;
    std::map<std::string, std::set<std::string>> told_;  // by teller
    std::map<std::string, SnaptOffer> offers_;
    uint64_t left_out_ = 0;
};

}  // namespace continuo::cnapt
