#include "common/dataplane/datagram_receiver.hpp"

#include <cstring>
#include <utility>

namespace continuo::dataplane {

bool DatagramReceiver::keep(const io::ReceivedBatch& batch,
                            uint16_t socket,
                            turns::InputQueue& queue) {
    const size_t bytes = batch.bytes.size();
    const size_t step = batch.segment_bytes == 0 ? bytes : batch.segment_bytes;
    const size_t datagrams = bytes == 0 ? 1 : (bytes + step - 1) / step;
    if (!queues_->admit(queue, bytes, datagrams)) {
        return false;
    }
    turns::Input input;
    if (bytes <= packet::kSmallBufferBytes) {
        input.packet = queues_->take(bytes);
        if (input.packet != nullptr) {
            std::memcpy(input.packet->storage, batch.bytes.data(), bytes);
            input.packet->length = static_cast<uint32_t>(bytes);
        }
    } else if (packet::PacketPtr fresh = queues_->take(io::kSuperBufferBytes)) {
        input.packet = arena_.exchange(batch, std::move(fresh));
    }
    if (input.packet == nullptr) {
        turns::InputQueues::drop(queue, datagrams);
        return false;
    }
    input.from = batch.from;
    input.to = batch.to;
    input.segment_bytes = batch.segment_bytes;
    input.socket = socket;
    queues_->push(queue, std::move(input));
    return true;
}

}  // namespace continuo::dataplane
