#include "common/control/epoch_keys.hpp"

#include <algorithm>

namespace continuo::control {

namespace {

constexpr size_t kContextBytes = kSessionIdBytes + 2 + 2 + 4 + 1;

base::Result<DirectionKeys> export_direction(const TlsChannel& channel,
                                             const AssociationId& association,
                                             uint32_t epoch,
                                             Direction direction) {
    std::array<uint8_t, kContextBytes> context{};
    base::ByteWriter writer(context);
    writer.bytes(association.session_id);
    writer.u16(association.wire_session_up);
    writer.u16(association.wire_session_down);
    writer.u32(epoch);
    writer.u8(static_cast<uint8_t>(direction));
    CTN_ASSERT(writer.ok() && writer.room() == 0);

    DirectionKeys keys;
    base::Secret<sizeof keys.key + sizeof keys.iv> material;
    CTN_TRY(channel.export_keys(kDatagramKeyLabel, context, material));
    std::copy_n(material.begin(), keys.key.size(), keys.key.begin());
    std::copy_n(material.begin() + keys.key.size(), keys.iv.size(), keys.iv.begin());
    return keys;
}

}  // namespace

base::Result<EpochKeys>
export_epoch_keys(const TlsChannel& channel, const AssociationId& association, uint32_t epoch) {
    EpochKeys keys;
    keys.epoch = epoch;
    keys.up = CTN_TRY(export_direction(channel, association, epoch, Direction::Up));
    keys.down = CTN_TRY(export_direction(channel, association, epoch, Direction::Down));
    return keys;
}

}  // namespace continuo::control
