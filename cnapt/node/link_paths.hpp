// LinkPaths: keeps the paths of each session in step with the uplinks. On an interface that has
// addresses of both IP versions, the version in use is a path; the other becomes one when nothing
// comes back over the first (docs/DECISIONS.md). LinkChoice chooses the one that carries. Data loop
// only.
#pragma once

#include "cnapt/links/snapt_link.hpp"
#include "cnapt/uplinks/uplinks.hpp"

namespace continuo::cnapt::node {

class LinkPaths {
  public:
    // All must outlive this.
    LinkPaths(const links::SnaptLinks& links,
              uplinks::Uplinks& uplinks,
              const netlink::NetMonitor& monitor)
        : links_(links), uplinks_(uplinks), monitor_(monitor) {}

    // The uplink is to be a path to that SNAPT.
    bool is_path(const links::SnaptLink& link, const uplinks::Uplink& uplink) const {
        return link.addresses.has(uplink.address.version) && !is_spare(link, uplink);
    }
    // A SNAPT answers over it, as far as is known.
    bool works(const uplinks::Uplink& uplink) const;
    // Data goes over it, or would if it worked.
    bool is_needed(const uplinks::Uplink& uplink) const;

    // --- For links with a session
    // Follows a change of the uplinks, which may also have restored a path: that one is asked.
    void
    update(links::SnaptLink& link, const uplinks::Uplinks::Change& change, base::TimePoint now);
    void add_new(links::SnaptLink& link, base::TimePoint now);
    // Adds new ones; those that fail are to be asked.
    void add(links::SnaptLink& link, base::TimePoint now);
    // Those that cannot carry, except the active one.
    void remove_cut(links::SnaptLink& link) const;
    // Those that are no paths (any more). True: there was one.
    bool remove_spare(links::SnaptLink& link) const;
    // The SNAPT has another address of that version now, or none.
    void leave(links::SnaptLink& link, base::IpVersion version, base::TimePoint now) const;
    // Asks all, including dead ones; their answers are counted.
    void ask_all(links::SnaptLink& link, base::TimePoint now) const;

  private:
    bool is_spare(const links::SnaptLink& link, const uplinks::Uplink& uplink) const;

    const links::SnaptLinks& links_;
    uplinks::Uplinks& uplinks_;
    const netlink::NetMonitor& monitor_;
};

}  // namespace continuo::cnapt::node
