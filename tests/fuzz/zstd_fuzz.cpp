// zstd_fuzz: the content of a compressed section. Input: output bound (2 bytes, big-endian; 0
// stands for 65536), content. The output must stay within its bound and be the same each time;
// output that compresses must decompress to itself.
#include "common/compress/zstd_codec.hpp"

#include <algorithm>
#include <memory>

using continuo::base::ByteReader;
using continuo::base::ByteView;
using continuo::base::MutableByteView;
using continuo::compress::kMaxPlainBytes;
using continuo::compress::ZstdCodec;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static ZstdCodec codec;
    ByteReader reader({data, size});
    const uint16_t told = reader.u16();
    if (!reader.ok()) {
        return 0;
    }
    const size_t bound = told == 0 ? kMaxPlainBytes : told;
    const ByteView content = reader.rest();
    // The zstd library is not instrumented: marks behind the bound show whether it wrote past it.
    constexpr size_t kMarkBytes = 64;
    constexpr uint8_t kMark = 0xC5;
    const std::unique_ptr<uint8_t[]> first_memory(new uint8_t[bound + kMarkBytes]);
    std::fill_n(first_memory.get() + bound, kMarkBytes, kMark);
    const std::unique_ptr<uint8_t[]> second_memory(new uint8_t[bound]);
    const auto first = codec.decompress(content, MutableByteView(first_memory.get(), bound));
    const auto second = codec.decompress(content, MutableByteView(second_memory.get(), bound));
    CTN_ASSERT(std::all_of(first_memory.get() + bound, first_memory.get() + bound + kMarkBytes,
                           [](uint8_t byte) { return byte == kMark; }));
    CTN_ASSERT(first.has_value() == second.has_value());
    if (!first) {
        return 0;
    }
    CTN_ASSERT(*first <= bound && *first == *second);
    CTN_ASSERT(std::equal(first_memory.get(), first_memory.get() + *first, second_memory.get()));
    const ByteView plain(first_memory.get(), *first);
    const std::unique_ptr<uint8_t[]> again_memory(new uint8_t[kMaxPlainBytes]);
    if (const auto bytes =
            codec.compress(plain, MutableByteView(again_memory.get(), kMaxPlainBytes))) {
        CTN_ASSERT(*bytes + 1 < plain.size());
        const auto back = codec.decompress(ByteView(again_memory.get(), *bytes),
                                           MutableByteView(second_memory.get(), bound));
        CTN_ASSERT(back.has_value() && *back == plain.size());
        CTN_ASSERT(std::equal(plain.begin(), plain.end(), second_memory.get()));
    }
    return 0;
}
