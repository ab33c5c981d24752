// LinkFailures: why a SNAPT, and each path to it, last failed. For people; nothing is decided by
// the paths' ones.
#pragma once

#include "cnapt/links/failure.hpp"
#include "cnapt/uplinks/uplinks.hpp"

#include <array>
#include <optional>
#include <string>

namespace continuo::cnapt::links {

class LinkFailures {
  public:
    // --- Login and control link
    // Why the SNAPT does not work; `slot`: the uplink at fault, if there is one.
    void note(Failure failure, std::optional<uint8_t> slot);
    // The same for one of several ways, while others are tried.
    void note_way(const Failure& failure, std::optional<uint8_t> slot);
    // The SNAPT has let the node in, by the uplink in `slot`.
    void note_login(std::optional<uint8_t> slot);

    // --- Paths
    void note_path(uint8_t path, FailureKind kind, const std::string& text);
    // It works again; `kind`: that failure is over, others are not.
    void note_mended(uint8_t path) { paths_[path].is_current = false; }
    void note_mended(uint8_t path, FailureKind kind);
    // The uplink may have no carrier, or no route to the SNAPT.
    void note_network(const uplinks::Uplink& uplink,
                      const uplinks::SnaptAddresses& snapt,
                      const netlink::NetSnapshot& network);
    // Another uplink will have that slot.
    void forget_path(uint8_t slot) { paths_[slot] = {}; }

    bool is_now(FailureKind kind) const { return latest_.is_now(kind); }
    const Failure& latest() const { return latest_; }
    const Failure& of_path(uint8_t path) const { return paths_[path]; }

  private:
    Failure latest_;  // the login's and control link's
    std::array<Failure, wire::kMaxPaths> paths_;
};

}  // namespace continuo::cnapt::links
