// New keys while a node moves, in virtual time: keys that one end never got do no harm, and numbers
// of former keys are not taken for those of new ones.
#include "tests/sim/downstream.hpp"
#include "tests/sim/two_paths.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::milliseconds;
using base::TrafficClass;

// A connection that broke off before its ACCEPT arrived: SNAPT has keys that the node never got.
TEST(HandoverSim, AnEpochThatTheNodeNeverGotIsGrantedAnew) {
    Downstream stream({}, 3);
    stream.run_for(milliseconds(100));
    tunnel::Session& snapt = *stream.pair.snapt.session;
    crypto::KeyMaterial lost;
    lost.key[5] = 99;
    session::EpochInstall keys;
    keys.epoch = 2;
    keys.sealer = std::move(crypto::make_cipher(crypto::Protection::Aes256Gcm, lost, 16)).value();
    keys.opener = std::move(crypto::make_cipher(crypto::Protection::Aes256Gcm, lost, 16)).value();
    snapt.install_epoch(std::move(keys), stream.pair.now);
    stream.run_for(milliseconds(100));
    EXPECT_TRUE(snapt.epochs().may_grant(2)) << "it was never heard";
    EXPECT_FALSE(snapt.epochs().may_grant(1));
    stream.pair.install_epoch(2);
    stream.run_for(milliseconds(100));
    EXPECT_FALSE(snapt.epochs().may_grant(2)) << "the node has used it";
    EXPECT_TRUE(snapt.epochs().may_grant(3));
    stream.pair.run_for(base::seconds(1));
    EXPECT_EQ(stream.arrived().size(), stream.sent);
}

// Says when its epoch is gone.
class MortalSealer final : public crypto::DatagramCipher {
  public:
    MortalSealer(std::unique_ptr<crypto::DatagramCipher> sealer, bool& is_gone)
        : sealer_(std::move(sealer)), is_gone_(is_gone) {}
    ~MortalSealer() override { is_gone_ = true; }
    size_t tag_bytes() const override { return sealer_->tag_bytes(); }
    void seal(std::span<crypto::SealedUnit> units) override { sealer_->seal(units); }
    void open(std::span<crypto::SealedUnit> units) override { sealer_->open(units); }

  private:
    std::unique_ptr<crypto::DatagramCipher> sealer_;
    bool& is_gone_;
};

// A notification to the host may make it run the session's timers.
TEST(HandoverSim, AnEpochDoesNotEndWhileADatagramOfItIsRead) {
    TwoPaths call(TrafficClass::HtHd, base::PathMode::Handover, {}, {});
    SessionPair& pair = call.pair;
    bool is_gone = false;
    pair.wrap_sealer = [&](auto sealer, const auto&) {
        return std::make_unique<MortalSealer>(std::move(sealer), is_gone);
    };
    pair.install_epoch_at(pair.snapt, 2);
    pair.wrap_sealer = {};
    pair.install_epoch_at(pair.node, 2);
    call.talk(base::seconds(2));
    // An announcement that is late, of an epoch that has a successor.
    pair.record = true;
    pair.is_swallowed = [](bool is_up, const base::Endpoint& side) {
        return is_up && side == kOther;
    };
    call.move();
    pair.run_for(milliseconds(5));
    pair.record = false;
    const auto late =
        std::find_if(pair.recorded_up.begin(), pair.recorded_up.end(), [](const auto& datagram) {
            return wire::path_of(datagram) == 1 && datagram.size() >= wire::kAnnounceBodyBytes;
        });
    ASSERT_NE(late, pair.recorded_up.end());
    pair.install_epoch(3);
    pair.node.session->paths().path(0).node().probe(pair.now);
    pair.run_for(milliseconds(50));
    ASSERT_EQ(pair.snapt.session->paths().active(), 0);
    const base::TimePoint much_later = pair.now + base::seconds(60);
    size_t told = 0;
    pair.snapt.when_changed = [&](uint8_t path) {
        ++told;
        EXPECT_EQ(path, 1);
        pair.snapt.session->on_timeout(much_later);
        EXPECT_FALSE(is_gone) << "the datagram is not read to its end";
    };
    pair.inject(pair.snapt, *late, kOther);
    EXPECT_EQ(told, 1U);
    EXPECT_FALSE(is_gone);
    pair.snapt.session->on_timeout(much_later + base::seconds(2));
    EXPECT_TRUE(is_gone);
}

// Sequence numbers start anew with other keys: a copy that names one of the former keys would be
// mistaken for one under the new keys.
TEST(HandoverSim, WhatWasSentIntoASilenceWithFormerKeysIsNotCopiedWithNewOnes) {
    TwoPaths call(TrafficClass::HtHd, base::PathMode::Handover, link_of(milliseconds(10)),
                  link_of(milliseconds(10)));
    SessionPair& pair = call.pair;
    pair.install_epoch(2);
    call.talk(milliseconds(100));
    call.cut(0);
    call.talk(milliseconds(400));
    // Two connections at once have granted the same epoch.
    pair.install_epoch_at(pair.snapt, 2, 1);
    pair.install_epoch_at(pair.node, 2, 1);
    call.move();
    pair.run_for(milliseconds(500));
    EXPECT_EQ(pair.node.session->counters().copies_sent, 0U);
    pair.lose(pair.up_link(0), 0);
    pair.lose(pair.down_link(0), 0);
    pair.node.session->paths().node().activate(0, pair.now);
    pair.run_for(milliseconds(500));
    const uint32_t first = call.sent_up;
    call.talk(base::seconds(1));
    pair.run_for(milliseconds(500));
    call.expect_up(first, call.sent_up);
}

}  // namespace
}  // namespace continuo::tests
