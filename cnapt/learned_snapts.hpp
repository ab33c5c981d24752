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

// With those of the configuration. Each costs a control link, and up to 110 kB a day when idle
// (calculated).
inline constexpr size_t kMaxSnapts = 6;

struct LearnedSnapt {
    std::vector<config::HostPort> addresses;
    std::string told_by;  // of the configuration: its word counts, its identity key is used
    // The teller is reached at a private address itself, as SNAPTs on mesh routers are.
    bool may_be_private = false;
    bool is_listed = false;  // some SNAPT of the configuration tells of it, as far as is known
    bool operator==(const LearnedSnapt&) const = default;
};

struct SnaptOffer {
    double load = 0;   // 0 to 1
    double price = 1;  // of the plan's
};

// Whether a learned address may be called at all: none of this host, of its link or of a group, and
// a private one only if that is said.
bool may_call(const base::IpAddress& address, bool may_be_private);

class LearnedSnapts {
  public:
    LearnedSnapts(std::string realm, std::set<std::string> configured)
        : realm_(std::move(realm)), configured_(std::move(configured)) {}

    // Replaces the earlier list of the same SNAPT. SNAPTs are learned from configured ones alone,
    // so that two that name each other do not stay for ever; an offer is taken from the SNAPT
    // itself. Entries of another realm, with bad names or addresses, or beyond kMaxSnapts are left
    // out. Gives whether all() is another.
    bool take(const std::string& teller,
              const control::Directory& directory,
              bool is_teller_private = false);

    // By name.
    const std::map<std::string, LearnedSnapt>& all() const { return all_; }
    // One that is not listed; another may take its place.
    void forget(const std::string& name) { all_.erase(name); }
    // It may have new flows though there are others.
    bool is_listed(const std::string& name) const;
    SnaptOffer offer(const std::string& name) const;
    uint64_t left_out() const { return left_out_; }

    // JSON. Those that are not listed, too: they may have flows.
    std::string text() const;
    // Leaves out text of another form, and entries from a SNAPT that is not configured.
    void restore(std::string_view text);

  private:
    bool learn(const std::string& name, LearnedSnapt told);

    std::string realm_;
    std::set<std::string> configured_;
    std::map<std::string, LearnedSnapt> all_;
    std::map<std::string, std::set<std::string>> told_;  // by teller
    std::map<std::string, SnaptOffer> offers_;
    uint64_t left_out_ = 0;
};

}  // namespace continuo::cnapt
