// Capture files of anybody. Claims checked: whatever the bytes are, each packet lies within its
// length, begins as IP does, the times it took to read are bounded by the bytes of the file, and
// after the end there is nothing.
#include "common/packet/capture_reader.hpp"

#include <algorithm>

using continuo::base::MutableByteView;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    size_t at = 0;
    continuo::packet::CaptureReader reader([&](MutableByteView to) {
        const size_t bytes = std::min(to.size(), size - at);
        std::copy_n(data + at, bytes, to.begin());
        at += bytes;
        return bytes;
    });
    uint64_t packets = 0;
    while (true) {
        const auto packet = reader.next();
        if (!packet || !*packet) {
            break;
        }
        ++packets;
        const auto& found = **packet;
        CTN_ASSERT(found.bytes.size() <= found.length);
        CTN_ASSERT(found.bytes.size() <= continuo::packet::kMaxCaptureBlock);
        CTN_ASSERT(found.bytes.empty() || found.bytes[0] >> 4 == 4 || found.bytes[0] >> 4 == 6);
    }
    CTN_ASSERT(packets + reader.not_ip() == reader.frames());
    CTN_ASSERT(reader.frames() <= size);
    const auto after = reader.next();
    CTN_ASSERT(after && !*after);
    return 0;
}
