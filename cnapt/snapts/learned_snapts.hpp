// LearnedSnapts: SNAPTs that are not configured but listed in the directory of one that is
// (docs/PROTOCOL.md section 4.3). Bookkeeping only. It is kept in a file, so that after a restart
// flows find their SNAPT, and the node finds a SNAPT while the configured one is away.
#pragma once

#include "common/config/values.hpp"
#include "common/control/message.hpp"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::cnapt::snapts {

// Limit, including configured ones. Each costs a control link, and up to 110 kB a day when idle
// (calculated).
inline constexpr size_t kMaxSnapts = 6;

struct LearnedSnapt {
    std::vector<config::HostPort> addresses;
    std::string told_by;  // configured SNAPT whose list counts and whose identity key is used
    // The teller itself has a private address, as SNAPTs on mesh routers do.
    bool may_be_private = false;
    bool is_listed = false;  // at least one configured SNAPT lists it, as far as is known
    bool operator==(const LearnedSnapt&) const = default;
};

struct SnaptOffer {
    double load = 0;   // 0 to 1
    double price = 1;  // of the plan's
    control::VersionSet no_way_out{};
};

// Whether a learned address may be contacted at all: none of this host, link-local or multicast,
// and a private one only if `may_be_private`.
bool may_call(const base::IpAddress& address, bool may_be_private);

class LearnedSnapts {
  public:
    LearnedSnapts(std::string realm, std::set<std::string> configured)
        : realm_(std::move(realm)), configured_(std::move(configured)) {}

    // Replaces the earlier list of the same SNAPT. Only configured SNAPTs may list others, so that
    // two that name each other do not stay for ever; an offer must come from the SNAPT itself.
    // Entries of another realm, with bad names or addresses, or beyond kMaxSnapts are ignored. True
    // when all() changes.
    bool take(const std::string& teller,
              const control::Directory& directory,
              bool is_teller_private = false);

    // The key is the name.
    const std::map<std::string, LearnedSnapt>& all() const { return all_; }
    // A SNAPT that is not listed any more; another may take its place.
    void forget(const std::string& name) { all_.erase(name); }
    // The SNAPT may get new flows even if there are others.
    bool is_listed(const std::string& name) const;
    SnaptOffer offer(const std::string& name) const;
    uint64_t left_out() const { return left_out_; }

    // JSON, including those not listed any more: they may have flows.
    std::string text() const;
    // Ignores text of another format, and entries from a SNAPT that is not configured.
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

}  // namespace continuo::cnapt::snapts
