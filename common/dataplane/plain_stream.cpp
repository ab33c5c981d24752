#include "common/dataplane/plain_stream.hpp"

#include "common/crypto/hmac_sha256.hpp"

#include <algorithm>
#include <string_view>

namespace continuo::dataplane {

namespace {

constexpr std::string_view kHelloLabel = "continuo hello";

crypto::HmacSha256::Digest hello_tag(const wire::Hello& hello, const control::EpochKeys& keys) {
    const crypto::HmacSha256 hmac(keys.up.key);
    const auto* label = reinterpret_cast<const uint8_t*>(kHelloLabel.data());
    return hmac.digest({label, kHelloLabel.size()}, hello.signed_part());
}

bool is_genuine(const wire::Hello& hello, const control::EpochKeys& keys, uint8_t tag_bytes) {
    if (hello.epoch != keys.epoch % wire::kEpochModulus || hello.tag_bytes != tag_bytes) {
        return false;
    }
    const auto tag = hello_tag(hello, keys);
    uint8_t difference = 0;
    for (size_t i = 0; i < tag_bytes; ++i) {
        difference |= static_cast<uint8_t>(tag[i] ^ hello.tag[i]);
    }
    return difference == 0;
}

}  // namespace

wire::Hello make_hello(uint16_t wire_session,
                       uint32_t number,
                       const control::EpochKeys& keys,
                       uint8_t tag_bytes) {
    wire::Hello hello;
    hello.epoch = static_cast<uint8_t>(keys.epoch % wire::kEpochModulus);
    hello.session_id = wire_session;
    hello.number = number;
    hello.tag_bytes = tag_bytes;
    const auto tag = hello_tag(hello, keys);
    std::copy_n(tag.begin(), tag_bytes, hello.tag.begin());
    return hello;
}

void HelloCheck::add(const control::EpochKeys& keys) {
    epochs_[1] = epochs_[0];
    epochs_[0] = Epoch{keys, std::nullopt};
}

bool HelloCheck::accepts(const wire::Hello& hello, uint8_t tag_bytes) {
    for (std::optional<Epoch>& epoch : epochs_) {
        if (epoch && is_genuine(hello, epoch->keys, tag_bytes)) {
            const bool is_new = !epoch->highest || hello.number > *epoch->highest;
            epoch->highest = is_new ? hello.number : epoch->highest;
            return is_new;
        }
    }
    return false;
}

base::Result<PlainStream::Flushed> PlainStream::flush(DatagramQueue& queue) {
    Flushed result;
    result.is_done = CTN_TRY(stream_.flush(
        [&](base::MutableByteView to) { return fill(to, queue, result.tells_room); }));
    return result;
}

size_t PlainStream::fill(base::MutableByteView to, DatagramQueue& queue, bool& tells_room) {
    base::ByteWriter writer(to);
    if (hello_) {
        wire::write_record_length(writer, hello_->size());
        hello_->serialize(writer);
        hello_.reset();
    }
    const auto pulled = queue.pull([&](base::MutableByteView datagram) {
        const size_t record = wire::kRecordLengthBytes + datagram.size();
        if (record > to.size()) {
            return true;  // longer than any datagram of ours
        }
        if (record > writer.room() || writer.size() >= kMaxUnwrittenStreamBytes) {
            return false;
        }
        wire::write_record_length(writer, datagram.size());
        writer.bytes(datagram);
        return true;
    });
    tells_room = tells_room || pulled.tells_room;
    return writer.size();
}

}  // namespace continuo::dataplane
