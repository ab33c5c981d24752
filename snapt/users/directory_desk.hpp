// DirectoryDesk: what nodes are told of the SNAPTs that they may use: this one's load, whether it
// forwards, and whether an operator empties it: then it takes no new sessions and flows. All learn
// what is new, some at each tick.
#pragma once

#include "snapt/links/control_server.hpp"
#include "snapt/relay/relay.hpp"
#include "snapt/users/admission_parts.hpp"

#include <functional>
#include <map>
#include <optional>

namespace continuo::snapt::users {

// How long after it was told a node may still begin flows at a SNAPT that drains: its datagrams on
// the way, and a message that TCP repeats once (RFC 6298, 2.1: 1 s). A choice.
inline constexpr base::Duration kDrainNotice = base::seconds(2);

// An operator empties this SNAPT.
struct Drain {
    int64_t since_utc_s = 0;
    base::TimePoint ends_at = base::kNever;  // the sessions that are left; kNever: when their
                                             // flows have ended
    int64_t ends_utc_s = 0;                  // 0: never
};

class DirectoryDesk {
  public:
    // Session of a link; 0: none any more.
    using WireIdOf = std::function<uint16_t(links::LinkId)>;

    // `parts` must outlive it.
    DirectoryDesk(const AdmissionParts& parts, WireIdOf wire_id_of)
        : parts_(parts), wire_id_of_(std::move(wire_id_of)) {}
    void connect(relay::Relay& relay, links::ControlServer& server);
    // The node of this link was accepted, and knows of the SNAPTs from here on.
    void add(links::LinkId id);
    void remove(links::LinkId id) { links_.erase(id); }

    void renew();
    void set_forwarding(bool is_forwarding, control::VersionSet no_way_out);
    bool begin_drain(std::optional<base::Duration> most);
    bool end_drain();
    const std::optional<Drain>& drain() const { return drain_; }
    // Returns true, once, when the time of the drain is over: the sessions that are left end.
    bool on_tick();

  private:
    void renew_load();
    void tell_all();
    void tell(links::LinkId id);
    void drain_silent_nodes();

    const AdmissionParts& parts_;
    WireIdOf wire_id_of_;
    relay::Relay* relay_ = nullptr;
    links::ControlServer* server_ = nullptr;
    control::Directory directory_;
    std::map<links::LinkId, bool> links_;  // whether they know it
    bool has_untold_ = false;              // some link may not know it
    uint16_t told_load_ = 0;
    base::TimePoint load_looked_at_{};
    bool is_forwarding_ = true;
    control::VersionSet no_way_out_;
    std::optional<Drain> drain_;
};

}  // namespace continuo::snapt::users
