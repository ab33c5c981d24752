// Uplinks: local interfaces over which a SNAPT may be reached, with their addresses, own or
// borrowed (borrowed_addresses.hpp), and their sockets: one UDP socket per class, bound to the
// source, never connected, sending by the device. IPv4 sockets also receive by any other device: if
// two cards are in one network, either answers ARP for both addresses (RFC 826; arp_ignore 0), and
// the router sends to the one it heard last. IPv6 answers by the card of the address (RFC 4861) and
// is bound to the device, as is an address that two interfaces have. An uplink's slot is its path
// index on the wire. Data loop only.
#pragma once

#include "cnapt/uplinks/borrowed_addresses.hpp"
#include "cnapt/uplinks/fwmark.hpp"
#include "cnapt/uplinks/snapt_addresses.hpp"
#include "common/base/traffic_class.hpp"
#include "common/io/net_monitor.hpp"
#include "common/io/udp_socket.hpp"
#include "common/wire/constants.hpp"

#include <array>
#include <bitset>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace continuo::cnapt::uplinks {

struct UplinkRules {
    std::string own_device = "cnapt0";
    std::vector<std::string> allow = {"*"};  // interface globs; deny wins
    std::vector<std::string> deny;
    // Globs for interfaces of a gateway's LAN: uplinks only if a default route leads there or
    // `allow` names them.
    std::vector<std::string> lan;
    uint32_t fwmark = kDefaultFwmark;
    std::array<uint8_t, base::kTrafficClasses> tos{};  // whole octet
};

struct Uplink {
    uint8_t slot = 0;
    uint32_t interface_index = 0;
    std::string interface;
    base::IpAddress address;
    uint16_t mtu = 1500;
    bool is_borrowed = false;  // the address is another interface's
    bool is_deprecated = false;
    bool is_tunnel = false;   // carried over IP, by another interface of this host
    bool is_named = false;    // by a glob of `allow` other than "*"
    bool is_bound = false;    // the sockets, to the device
    bool is_captive = false;  // a portal answers in the place of SNAPTs
    std::string portal_url;   // where it leads, if it said so
    bool has_carrier = true;
    // Wi-Fi association; after its loss the carrier may be reported for up to a second more.
    bool is_joined = true;
    bool can_carry() const { return has_carrier && is_joined; }
    bool is_wireless = false;       // a client of access points
    std::optional<int> signal_dbm;  // the access point's, when asked last
    bool is_weak = false;           // the signal: it may be lost soon
    base::TimePoint signal_asked_at{};
    uint64_t datagrams_when_asked = 0;
    struct Port {
        io::UdpSocket socket;
        std::unique_ptr<io::Poller> poller;
    };
    std::array<std::unique_ptr<Port>, base::kTrafficClasses> ports;
};

// True when `name` fits the globs.
bool is_allowed_interface(std::string_view name, const UplinkRules& rules);

// True when `name` is one of `lan`.
bool is_lan_side(std::string_view name, const UplinkRules& rules);

class Uplinks {
  public:
    using OnReadable = std::function<void(Uplink& uplink, io::UdpSocket& socket)>;
    using OnWritable = std::function<void()>;

    Uplinks(io::EventLoop& loop, UplinkRules rules, OnReadable on_readable, OnWritable on_writable);

    struct Change {
        std::vector<uint8_t> removed;  // slots; their sockets close when this is returned
        std::vector<uint8_t> added;
        std::vector<uint8_t> resized;  // their MTU has changed
        std::vector<uint8_t> joined;   // joined a network, perhaps another one
        bool is_any_cut = false;       // at least one cannot carry any more
    };
    // The last index is TCP's.
    static constexpr size_t kSlots = wire::kTcpPath;
    using SlotSet = std::bitset<kSlots>;
    // Follows the host's state. An address becomes an uplink when its interface has a default route
    // of its IP version (also in parts) or a route to a SNAPT, or matches a glob of `allow` other
    // than "*". It stays one while it exists, since routes may be replaced in two steps. An
    // interface with a route to a SNAPT and no address uses the one it borrows, for which the
    // kernel is asked.
    Change update(const io::NetSnapshot& snapshot);
    // Sets the SNAPTs' addresses for the next update(). True: they have changed.
    bool set_snapts(std::vector<base::IpAddress> snapts);
    // An access point was joined or left; interface 0: any may have been joined.
    Change note_joined(uint32_t interface_index, bool is_joined);
    // Signal of the access point; nothing: unknown. Weak below one level, until above another.
    void note_signal(uint32_t interface_index, std::optional<int> dbm);
    // Beacons are missing: counts as a weak signal until the next one is reported.
    void note_weak(uint32_t interface_index);

    // The uplink that the host would use towards the SNAPT, except `excluded`: longest prefix that
    // covers the address of its IP version, then lowest metric. Without such a route, any uplink of
    // a version that the SNAPT has, since its route may follow soon. Null when there is none. An
    // interface with routes of both versions is ranked by the better one and used by the version in
    // use. One behind a captive portal is chosen only if no other has a route, then those of last
    // resort, and one that cannot carry last.
    Uplink*
    best_for(const SnaptAddresses& snapt, const io::NetSnapshot& snapshot, SlotSet excluded = {});
    // The order of best_for: the smallest is best. The SNAPT has an address of its version.
    uint64_t cost_of(const Uplink& uplink,
                     const SnaptAddresses& snapt,
                     const io::NetSnapshot& snapshot) const;
    // Towards the SNAPT's address of its version.
    static bool
    has_route(const Uplink& uplink, const SnaptAddresses& snapt, const io::NetSnapshot& snapshot);
    // A tunnel that no glob names and that has a default route, also in parts, or none to the
    // SNAPT: it carries the host's traffic, and another uplink carries it. Not if it has a route to
    // the SNAPT alone.
    static bool is_last_resort(const Uplink& uplink,
                               const SnaptAddresses& snapt,
                               const io::NetSnapshot& snapshot);
    // Another uplink that can carry is in the same network as this one, which is IPv4: datagrams to
    // one may arrive by the other.
    bool shares_network(const Uplink& uplink, const io::NetSnapshot& snapshot) const;
    // Null for a free slot and for none.
    Uplink* at(uint8_t slot) { return slot < kSlots ? slots_[slot].get() : nullptr; }
    std::vector<const Uplink*> list() const;
    void wait_writable(const io::UdpSocket& socket);
    uint64_t failed() const { return failed_; }
    uint32_t fwmark() const { return rules_.fwmark; }

  private:
    std::vector<io::UsableAddress> with_borrowed(const io::NetSnapshot& snapshot) const;
    Uplink* find(const io::UsableAddress& address);
    bool has_neighbour(const io::UsableAddress& own) const;
    bool has_better_version(const Uplink& uplink,
                            const SnaptAddresses& snapt,
                            const io::NetSnapshot& snapshot,
                            const SlotSet& excluded) const;
    uint64_t interface_cost(const Uplink& uplink,
                            const SnaptAddresses& snapt,
                            const io::NetSnapshot& snapshot) const;
    template <typename Each>
    void for_each_on(uint32_t interface_index, Each each);
    static void note_carrier(Uplink& uplink, bool has_carrier, Change& change);
    bool leads_out(const io::UsableAddress& address,
                   const io::LinkEntry& link,
                   const io::NetSnapshot& snapshot) const;
    bool open_ports(Uplink& uplink);
    std::optional<uint8_t> free_slot();

    io::EventLoop& loop_;
    UplinkRules rules_;
    AskSource ask_source_;
    OnReadable on_readable_;
    OnWritable on_writable_;
    io::UdpOffloadSupport offload_;
    std::array<std::unique_ptr<Uplink>, kSlots> slots_;
    uint8_t last_slot_ = kSlots - 1;
    uint64_t failed_ = 0;
    std::vector<base::IpAddress> refused_;  // for want of a slot
    std::vector<base::IpAddress> snapts_;
};

}  // namespace continuo::cnapt::uplinks
