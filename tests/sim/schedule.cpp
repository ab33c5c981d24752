#include "tests/sim/schedule.hpp"

#include <algorithm>

namespace continuo::tests {

using base::Duration;
using base::Endpoint;
using base::milliseconds;
using base::seconds;
using base::TimePoint;

namespace {

constexpr uint32_t kOuterOverhead = 28;  // links count UDP payload
constexpr std::array<uint32_t, 3> kSmallMtus = {1280, 1000, 576};
constexpr Duration kShortStep = milliseconds(20);
// A black hole is found within 3 s while large packets are sent.
constexpr Duration kMtuFound = seconds(3);
// A path that is used besides the active one is asked when it was not heard for 15 s, looked at
// once a second; before, SNAPT may not know its mapping and loses what it sends there until
// T_doubt.
constexpr Duration kMappingLifetime = seconds(25);
constexpr Duration kAllAsked = seconds(17);

class WatchedSealer final : public crypto::DatagramCipher {
  public:
    WatchedSealer(std::unique_ptr<crypto::DatagramCipher> sealer,
                  Schedule::Sealed& sealed,
                  uint64_t& repeated)
        : sealer_(std::move(sealer)), sealed_(sealed), repeated_(repeated) {}
    size_t tag_bytes() const override { return sealer_->tag_bytes(); }
    void seal(std::span<crypto::SealedUnit> units) override {
        for (const crypto::SealedUnit& unit : units) {
            repeated_ += sealed_.insert({unit.space, unit.sequence}).second ? 0U : 1U;
        }
        sealer_->seal(units);
    }
    void open(std::span<crypto::SealedUnit> units) override { sealer_->open(units); }

  private:
    std::unique_ptr<crypto::DatagramCipher> sealer_;
    Schedule::Sealed& sealed_;
    uint64_t& repeated_;
};

}  // namespace

Schedule::Schedule(uint64_t seed)
    : chance_(seed * 7919)
    , pair_(SimLink{}, seed)
    , mode_(static_cast<base::PathMode>(below(base::kPathModes)))
    , node_(pair_)
    , streams_(pair_, mode_)
    , watch_(pair_, node_, streams_, spreads())
    , stranger_(pair_, chance_) {
    pair_.wrap_sealer = [this](std::unique_ptr<crypto::DatagramCipher> sealer,
                               const crypto::KeyMaterial& keys) {
        return std::make_unique<WatchedSealer>(std::move(sealer), sealed[keys.key], sealed_twice);
    };
    pair_.snapt.mode_of_opened = mode_;
    const auto uplinks = static_cast<uint8_t>(1 + below(RoamingNode::kUplinks));
    for (uint8_t slot = 0; slot < RoamingNode::kUplinks; ++slot) {
        randomize(slot);
    }
    begin_association();
    for (uint8_t slot = 0; slot < uplinks; ++slot) {
        node_.appear(slot, next_address(), below(100));
    }
    watch_.on_loss();
    streams_.send();
    pass(milliseconds(500), milliseconds(20));
}

LinkSettings Schedule::random_link() {
    SimLink link;
    link.delay = milliseconds(1 + below(60));
    link.jitter = milliseconds(below(30));
    link.keeps_order = one_in(2);
    link.loss_ppm = one_in(2) ? 0 : one_in(3) ? below(kCarriesWithLossPpm) : below(300'000);
    link.reorder_ppm = one_in(3) ? below(200'000) : 0;
    link.duplicate_ppm = one_in(3) ? below(100'000) : 0;
    if (one_in(4)) {
        link.bits_per_s = kCarriesBitsPerS + below(80'000'000);
    } else if (one_in(4)) {
        link.bits_per_s = 1'000'000 + below(9'000'000);
        link.queue_packets = 10 + below(40);
    }
    return link;
}

void Schedule::randomize(uint8_t slot) {
    for (LinkModel* link : {&node_.up(slot), &node_.down(slot)}) {
        LinkSettings settings = random_link();
        settings.is_up = link->settings().is_up;
        settings.mtu_bytes = link->settings().mtu_bytes;
        link->change(settings, pair_.now);
    }
}

Endpoint Schedule::next_address() {
    ++addresses_;
    return *Endpoint::parse("198.51.100." + std::to_string(addresses_ % 250) + ":" +
                            std::to_string(40000 + addresses_));
}

// Both ends have a new session; what went by the former ones is lost.
void Schedule::begin_association() {
    pair_.node.begin_anew(pair_.now);
    pair_.snapt.begin_anew(pair_.now);
    late_rekey_ = 0;
    epoch_ = 1;
    ++generation_;
    pair_.install_epoch_at(pair_.snapt, epoch_, generation_);
    pair_.install_epoch_at(pair_.node, epoch_, generation_);
    node_.on_session_began();
    streams_.give_up_waiting();
    watch_.on_loss();
    associates_at_ = base::kNever;
}

// Time passes in steps, and flows send at each but some of the short ones.
void Schedule::pass(Duration span, Duration step) {
    for (const TimePoint end = pair_.now + span; pair_.now < end;) {
        on_time();
        if (step > kShortStep || !one_in(4)) {
            streams_.send();
        }
        pair_.run_for(step);
        streams_.collect();
        watch_.look();
    }
}

// Actions that the daemons take by themselves, and outages that end now.
void Schedule::on_time() {
    for (uint8_t slot = 0; slot < RoamingNode::kUplinks; ++slot) {
        if (outages_[slot].ends_at <= pair_.now) {
            end_outage(slot);
        }
    }
    if (associates_at_ <= pair_.now) {
        begin_association();
    }
    node_.on_time();
    // Control goes by the active uplink.
    const auto active = node_.active();
    pair_.has_control = active && node_.up(*active).settings().is_up &&
                        node_.down(*active).settings().is_up && associates_at_ == base::kNever;
}

void Schedule::trouble() {
    for (uint32_t left = 6 + below(6); left > 0; --left) {
        something_happens();
        pass(milliseconds(20 + below(100)), milliseconds(5 + below(15)));
        if (one_in(16)) {
            pass(milliseconds(1000 + below(5000)), milliseconds(80));
        } else if (one_in(150)) {
            pass(seconds(10 + below(50)), milliseconds(80));
        }
    }
}

void Schedule::something_happens() {
    const auto slot = static_cast<uint8_t>(below(RoamingNode::kUplinks));
    switch (below(17)) {
    case 0:
        randomize(slot);
        break;
    case 1:
    case 2:
    case 3:
        black_out(slot);
        break;
    case 4:
    case 5:
        uplink_comes_or_goes(slot);
        break;
    case 6:  // another default route
        node_.set_metric(slot, below(100));
        ++moves;
        break;
    case 7:
    case 8:  // NAT gives another port, nobody tells
        if (node_.uplink(slot).is_there) {
            node_.rebind(slot, next_address());
        }
        break;
    case 9:
        if (one_in(2)) {
            cut_mtu(slot);
        } else if (node_.uplink(slot).is_there) {
            node_.resize(slot, static_cast<uint16_t>(kSmallMtus[below(kSmallMtus.size())]));
        }
        break;
    case 10:
    case 11:
        rekey();
        break;
    case 12:
        if (one_in(2)) {
            restart();
        }
        break;
    case 13:
        if (one_in(4)) {
            tunnel();
        }
        break;
    default:
        if (associates_at_ == base::kNever) {
            stranger_.interfere();
        }
        break;
    }
}

void Schedule::uplink_comes_or_goes(uint8_t slot) {
    ++moves;
    if (!node_.uplink(slot).is_there) {
        end_outage(slot);
        randomize(slot);
        node_.appear(slot, next_address(), below(100));
    } else if (node_.count() > 1 && one_in(2)) {
        node_.vanish(slot);
        watch_.on_loss();
    } else {
        node_.readdress(slot, next_address());
        watch_.on_loss();
    }
}

void Schedule::black_out(uint8_t slot) {
    const uint32_t which = below(3);  // up, down, both
    for (const bool is_up : {true, false}) {
        if (which == 2 || (which == 0) == is_up) {
            LinkModel& link = is_up ? node_.up(slot) : node_.down(slot);
            LinkSettings settings = link.settings();
            settings.is_up = false;
            link.change(settings, pair_.now);
        }
    }
    outages_[slot].ends_at = pair_.now + random_outage();
    watch_.on_loss();
}

Duration Schedule::random_outage() {
    return one_in(2)    ? milliseconds(20 + below(500))
           : one_in(10) ? Duration(seconds(10 + below(70)))
                        : Duration(milliseconds(500 + below(6000)));
}

// No uplink carries both ways, for a while that is waited for mostly; they come back one after the
// other. Sometimes for so long that dead paths are given up for a time.
void Schedule::tunnel() {
    const bool is_long = one_in(16);
    TimePoint first = base::kNever;
    for (uint8_t slot = 0; slot < RoamingNode::kUplinks; ++slot) {
        black_out(slot);
        if (is_long) {
            outages_[slot].ends_at = pair_.now + seconds(35 + below(50));
        }
        first = std::min(first, node_.uplink(slot).is_there ? outages_[slot].ends_at : first);
    }
    if (is_long || !one_in(4)) {
        pass(first - pair_.now, milliseconds(is_long ? 200 : 80));
        pass(seconds(5), milliseconds(80));
    }
}

void Schedule::end_outage(uint8_t slot) {
    for (LinkModel* link : {&node_.up(slot), &node_.down(slot)}) {
        LinkSettings settings = link->settings();
        settings.is_up = true;
        settings.mtu_bytes = 0;
        link->change(settings, pair_.now);
    }
    outages_[slot].ends_at = base::kNever;
}

// Silently, up, down or both, until another outage of that uplink ends.
void Schedule::cut_mtu(uint8_t slot) {
    const uint32_t which = below(3);
    const uint32_t mtu = kSmallMtus[below(kSmallMtus.size())] - kOuterOverhead;
    for (const bool is_up : {true, false}) {
        if (which == 2 || (which == 0) == is_up) {
            LinkModel& link = is_up ? node_.up(slot) : node_.down(slot);
            LinkSettings settings = link.settings();
            settings.mtu_bytes = mtu;
            link.change(settings, pair_.now);
        }
    }
}

// As the control link does: SNAPT has the keys first; the node gets them at once, later, or never,
// and then the same number is granted anew.
void Schedule::rekey() {
    if (associates_at_ != base::kNever) {
        return;
    }
    if (late_rekey_ != 0) {
        pair_.install_epoch_at(pair_.node, ++epoch_, generation_);
        late_rekey_ = 0;
    }
    if (!pair_.snapt.session->epochs().may_grant(epoch_ + 1)) {
        return;
    }
    if (one_in(4)) {
        pair_.install_epoch_at(pair_.snapt, epoch_ + 1, ++generation_);
        if (!pair_.snapt.session->epochs().may_grant(epoch_ + 1)) {
            pair_.install_epoch_at(pair_.node, ++epoch_, generation_);
            return;
        }
    }
    pair_.install_epoch_at(pair_.snapt, epoch_ + 1, ++generation_);
    if (one_in(2)) {
        late_rekey_ = epoch_ + 1;
        return;
    }
    pair_.install_epoch_at(pair_.node, ++epoch_, generation_);
}

// One end loses what it knew, at once or both; the other goes on with a session that nobody knows
// any more until control has made a new association. A cnapt that begins anew ends its session at
// SNAPT, a SNAPT that does refuses to go on with the node's: then both are new.
void Schedule::restart() {
    if (associates_at_ != base::kNever) {
        return;
    }
    ++restarts;
    const uint32_t which = below(3);
    if (which != 0) {
        pair_.snapt.begin_anew(pair_.now);
    }
    if (which != 1) {
        pair_.node.begin_anew(pair_.now);
        node_.on_session_began();
    }
    streams_.give_up_waiting();
    watch_.on_loss();
    associates_at_ = pair_.now + milliseconds(below(400));
}

// Links deliver all, but with one uplink still smaller packets than before. The node is not told;
// a late re-key stays as it is.
void Schedule::recover() {
    if (associates_at_ != base::kNever) {
        begin_association();
    }
    for (uint8_t slot = 0; slot < RoamingNode::kUplinks; ++slot) {
        for (LinkModel* link : {&node_.up(slot), &node_.down(slot)}) {
            LinkSettings settings = SimLink{};
            if (node_.count() == 1) {
                settings.mtu_bytes = link->settings().mtu_bytes;
                has_small_link_ =
                    has_small_link_ || (node_.uplink(slot).is_there && settings.mtu_bytes != 0);
            }
            link->change(settings, pair_.now);
        }
        outages_[slot].ends_at = base::kNever;
    }
    pass(seconds(2), milliseconds(40));
    if (has_small_link_) {
        pass(kMtuFound, milliseconds(20));
    }
    const TimePoint latest = pair_.now + kAllAsked;
    while (spreads() && pair_.now < latest && !knows_mappings(true)) {
        pass(milliseconds(500), milliseconds(80));
    }
}

// SNAPT, of paths that it may use: those heard within 25 s. `is_asked`: only those that the node
// asks: it asks one that it holds for dead ever less, and that one has ended is told three times,
// which may be lost. SNAPT then sends there in vain once, for T_doubt.
bool Schedule::knows_mappings(bool is_asked) {
    for (uint8_t slot = 0; slot < RoamingNode::kUplinks; ++slot) {
        const path::Tuple& tuple = pair_.snapt.session->paths().path(slot).validation().tuples()[0];
        const bool is_there = node_.uplink(slot).is_there;
        const bool is_dead =
            pair_.node.session->paths().path(slot).state() == path::PathState::Dead;
        const bool is_known = is_there && tuple.remote() == pair_.path_addresses.at(slot);
        const bool is_used = tuple.is_known() && pair_.now - tuple.heard_at() <= kMappingLifetime;
        if (is_used && !is_known && !(is_asked && (is_dead || !is_there))) {
            return false;
        }
    }
    return true;
}

bool Schedule::spreads() const {
    return mode_ == base::PathMode::Flow || mode_ == base::PathMode::Packet;
}

Schedule::Sent Schedule::sent() const {
    Sent numbers{};
    for (size_t stream = 0; stream < numbers.size(); ++stream) {
        for (const size_t direction : {0U, 1U}) {
            numbers[stream][direction] = streams_.way(stream, direction).sent;
        }
    }
    return numbers;
}

void Schedule::finish() {
    before_ = sent();
    must_arrive_ = !spreads() || knows_mappings(false);
    for (int round = 0; round < 5; ++round) {
        on_time();
        streams_.send();
        pair_.run_for(milliseconds(100));
    }
    pair_.run_for(milliseconds(400));
    streams_.collect();
}

std::string Schedule::fault() {
    std::string text = watch_.fault + stranger_.fault;
    if (spreads() && !knows_mappings(true)) {
        text += "; SNAPT does not know a mapping";
    }
    const Sent after = sent();
    for (size_t stream = 0; stream < after.size(); ++stream) {
        for (const size_t direction : {0U, 1U}) {
            const StreamWay& way = streams_.way(stream, direction);
            for (uint32_t number = before_[stream][direction] + 1;
                 number <= after[stream][direction]; ++number) {
                if (must_arrive_ && !way.arrived.contains(number)) {
                    text += "; number " + std::to_string(number) + " of flow " +
                            std::to_string(stream) + " " + NumberedStreams::kNames[direction] +
                            " did not arrive";
                }
            }
            if (after[stream][direction] < before_[stream][direction] + 5) {
                text += "; SNAPT does not know flow " + std::to_string(stream);
            }
        }
    }
    const std::array<std::pair<const char*, uint64_t>, 6> counts{{
        {"altered or made up", streams_.altered},
        {"delivered twice", streams_.delivered_twice},
        {"sealed twice", sealed_twice},
        {"flows detached from the node's session", streams_.detached(pair_.node)},
        {"flows detached from SNAPT's session", streams_.detached(pair_.snapt)},
        {"flows refused", pair_.snapt.session->drops().count(base::DropReason::FlowLimit)},
    }};
    for (const auto& [what, count] : counts) {
        text += count == 0 ? "" : "; " + std::string(what) + ": " + std::to_string(count);
    }
    return text.empty() ? text : std::string(base::to_string(mode_)) + ": " + text;
}

}  // namespace continuo::tests
