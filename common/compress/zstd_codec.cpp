#include "common/compress/zstd_codec.hpp"

#include <algorithm>
#include <array>

#include <zstd.h>

namespace continuo::compress {

using base::ByteView;
using base::Errc;
using base::Error;
using base::MutableByteView;
using base::Result;

namespace {

// RFC 8878 sections 3.1.1.1 and 3.1.1.2: descriptor 0 (no content size, no checksum, no
// dictionary), a window of 2 MiB, and a 3-byte little-endian block header: last block, type, size.
constexpr size_t kFrameHeadBytes = 2;
constexpr size_t kBlockHeadBytes = 3;
constexpr size_t kStrippedBytes = kFrameHeadBytes + kBlockHeadBytes;
constexpr uint8_t kDescriptor = 0x00;
constexpr uint8_t kWindowByte = 0x58;
constexpr uint32_t kLastBlock = 1;
constexpr uint32_t kBlockTypeShift = 1;
constexpr uint32_t kCompressedBlock = 2;
constexpr uint32_t kBlockSizeShift = 3;

constexpr int kWindowLog = 16;  // a section is never longer
static_assert(size_t{1} << kWindowLog == kMaxPlainBytes);
// A compressed section's head carries a generation, a raw one's does not.
constexpr size_t kCompressedHeadBytes = 1;

constexpr size_t kScratchBytes = kStrippedBytes + ZSTD_COMPRESSBOUND(kMaxPlainBytes);

uint32_t read_block_head(const uint8_t* from) {
    return uint32_t{from[0]} | uint32_t{from[1]} << 8 | uint32_t{from[2]} << 16;
}

// Enough for every level at each of zstd's size tiers up to the longest section.
size_t workspace_bytes() {
    constexpr std::array<unsigned long long, 3> kTiers = {4096, 16384, kMaxPlainBytes};
    size_t largest = 0;
    for (int level = kMinLevel; level <= kMaxLevel; ++level) {
        for (const unsigned long long tier : kTiers) {
            ZSTD_compressionParameters parameters = ZSTD_getCParams(level, tier, 0);
            parameters.windowLog = kWindowLog;
            parameters = ZSTD_adjustCParams(parameters, kMaxPlainBytes, 0);
            largest = std::max(largest, ZSTD_estimateCCtxSize_usingCParams(parameters));
        }
    }
    return largest;
}

void set_parameter(ZSTD_CCtx* context, ZSTD_cParameter parameter, int value) {
    CTN_ASSERT(ZSTD_isError(ZSTD_CCtx_setParameter(context, parameter, value)) == 0);
}

// zstd wants its workspace aligned to 8 bytes.
std::unique_ptr<uint64_t[]> make_workspace(size_t bytes) {
    return std::unique_ptr<uint64_t[]>(new uint64_t[(bytes + 7) / 8]);
}

}  // namespace

// Static contexts never allocate, and so never shrink and grow with the sections either.
struct ZstdCodec::Contexts {
    std::unique_ptr<uint64_t[]> compress_workspace;
    std::unique_ptr<uint64_t[]> decompress_workspace;
    std::unique_ptr<uint8_t[]> scratch{new uint8_t[kScratchBytes]};
    ZSTD_CCtx* compressor = nullptr;    // lies in its workspace
    ZSTD_DCtx* decompressor = nullptr;  // likewise
};

ZstdCodec::ZstdCodec() : contexts_(std::make_unique<Contexts>()) {
    const size_t compress_bytes = workspace_bytes();
    contexts_->compress_workspace = make_workspace(compress_bytes);
    contexts_->compressor =
        ZSTD_initStaticCCtx(contexts_->compress_workspace.get(), compress_bytes);
    const size_t decompress_bytes = ZSTD_estimateDCtxSize();
    contexts_->decompress_workspace = make_workspace(decompress_bytes);
    contexts_->decompressor =
        ZSTD_initStaticDCtx(contexts_->decompress_workspace.get(), decompress_bytes);
    CTN_ASSERT(contexts_->compressor != nullptr && contexts_->decompressor != nullptr);
    ZSTD_CCtx* const compressor = contexts_->compressor;
    set_parameter(compressor, ZSTD_c_format, ZSTD_f_zstd1_magicless);
    set_parameter(compressor, ZSTD_c_contentSizeFlag, 0);
    set_parameter(compressor, ZSTD_c_checksumFlag, 0);
    set_parameter(compressor, ZSTD_c_windowLog, kWindowLog);
    set_parameter(compressor, ZSTD_c_compressionLevel, level_);
    CTN_ASSERT(ZSTD_isError(ZSTD_DCtx_setParameter(contexts_->decompressor, ZSTD_d_format,
                                                   ZSTD_f_zstd1_magicless)) == 0);
}

ZstdCodec::~ZstdCodec() = default;

void ZstdCodec::set_level(int level) {
    level = std::clamp(level, kMinLevel, kMaxLevel);
    if (level == level_) {
        return;
    }
    level_ = level;
    if (level != 0) {
        set_parameter(contexts_->compressor, ZSTD_c_compressionLevel, level);
    }
}

std::optional<size_t> ZstdCodec::compress(ByteView plain, MutableByteView to) {
    if (level_ == 0 || plain.empty() || plain.size() > kMaxPlainBytes) {
        return std::nullopt;
    }
    uint8_t* const frame = contexts_->scratch.get();
    const size_t frame_bytes =
        ZSTD_compress2(contexts_->compressor, frame, kScratchBytes, plain.data(), plain.size());
    if (ZSTD_isError(frame_bytes) != 0 || frame_bytes <= kStrippedBytes ||
        frame[0] != kDescriptor) {
        return std::nullopt;
    }
    const size_t content_bytes = frame_bytes - kStrippedBytes;
    const uint32_t expected = kLastBlock | kCompressedBlock << kBlockTypeShift |
                              static_cast<uint32_t>(content_bytes) << kBlockSizeShift;
    if (read_block_head(frame + kFrameHeadBytes) != expected ||
        content_bytes + kCompressedHeadBytes >= plain.size() || content_bytes > to.size()) {
        return std::nullopt;
    }
    std::copy_n(frame + kStrippedBytes, content_bytes, to.begin());
    return content_bytes;
}

Result<size_t> ZstdCodec::decompress(ByteView content, MutableByteView to) {
    if (content.empty()) {
        return Error{Errc::Truncated, "compressed section"};
    }
    const size_t bound = std::min(to.size(), kMaxPlainBytes);
    if (content.size() > kMaxPlainBytes) {
        return Error{Errc::LimitReached, "compressed section"};
    }
    uint8_t* const frame = contexts_->scratch.get();
    const uint32_t block_head = kLastBlock | kCompressedBlock << kBlockTypeShift |
                                static_cast<uint32_t>(content.size()) << kBlockSizeShift;
    frame[0] = kDescriptor;
    frame[1] = kWindowByte;
    frame[2] = static_cast<uint8_t>(block_head);
    frame[3] = static_cast<uint8_t>(block_head >> 8);
    frame[4] = static_cast<uint8_t>(block_head >> 16);
    std::copy(content.begin(), content.end(), frame + kStrippedBytes);
    const size_t plain_bytes = ZSTD_decompressDCtx(contexts_->decompressor, to.data(), bound, frame,
                                                   kStrippedBytes + content.size());
    if (ZSTD_isError(plain_bytes) != 0) {
        return Error{Errc::Malformed, "compressed section"};
    }
    return plain_bytes;
}

}  // namespace continuo::compress
