// cipher_bench: nanoseconds per datagram to seal and to open, for each protection. Not part of the
// default build:
//   cipher_bench [ROUNDS]    batches of 64; the least disturbed of ROUNDS (200) rounds is printed
#include "common/crypto/datagram_cipher.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <vector>

namespace {

using continuo::crypto::DatagramCipher;
using continuo::crypto::KeyMaterial;
using continuo::crypto::Protection;
using continuo::crypto::SealedUnit;

constexpr size_t kBatch = 64;
constexpr size_t kBatchesPerRound = 50;
constexpr uint8_t kHeaderBytes = 6;

struct Row {
    Protection protection;
    std::string_view name;
};

double nanoseconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start)
        .count();
}

// `datagram_bytes` with header and tag.
void measure(const Row& row, size_t datagram_bytes, size_t rounds) {
    auto made = continuo::crypto::make_cipher(row.protection, KeyMaterial{},
                                              continuo::crypto::kMaxTagBytes);
    if (!made) {
        std::printf("%-20s not available\n", row.name.data());
        return;
    }
    DatagramCipher& cipher = **made;
    std::vector<uint8_t> memory(kBatch * datagram_bytes);
    std::vector<SealedUnit> units(kBatch);
    double seal_ns = std::numeric_limits<double>::max();
    double open_ns = std::numeric_limits<double>::max();
    bool all_authentic = true;
    for (size_t round = 0; round < rounds; ++round) {
        double sealing = 0;
        double opening = 0;
        for (size_t batch = 0; batch < kBatchesPerRound; ++batch) {
            for (size_t i = 0; i < kBatch; ++i) {
                units[i].datagram = std::span(memory).subspan(i * datagram_bytes, datagram_bytes);
                units[i].header_bytes = kHeaderBytes;
                units[i].sequence = (round * kBatchesPerRound + batch) * kBatch + i;
            }
            auto start = std::chrono::steady_clock::now();
            cipher.seal(units);
            sealing += nanoseconds_since(start);
            start = std::chrono::steady_clock::now();
            cipher.open(units);
            opening += nanoseconds_since(start);
            all_authentic = all_authentic && std::all_of(units.begin(), units.end(),
                                                         [](const auto& u) { return u.authentic; });
        }
        seal_ns = std::min(seal_ns, sealing / (kBatch * kBatchesPerRound));
        open_ns = std::min(open_ns, opening / (kBatch * kBatchesPerRound));
    }
    std::printf("%-20s %5zu B   seal %6.0f ns   open %6.0f ns%s\n", row.name.data(), datagram_bytes,
                seal_ns, open_ns, all_authentic ? "" : "   NOT AUTHENTIC");
}

}  // namespace

int main(int argc, char** argv) {
    constexpr size_t kDefaultRounds = 200;
    const size_t rounds =
        argc > 1 ? std::max(1UL, std::strtoul(argv[1], nullptr, 10)) : kDefaultRounds;
    std::printf("fast AES: %s\n", continuo::crypto::has_fast_aes() ? "yes" : "no");
    for (const Row& row : {Row{Protection::Aes256Gcm, "AES-256-GCM"},
                           Row{Protection::ChaCha20Poly1305, "ChaCha20-Poly1305"},
                           Row{Protection::HmacSha256, "HMAC-SHA256"}}) {
        for (const size_t bytes : {128UL, 576UL, 1424UL}) {
            measure(row, bytes, rounds);
        }
    }
    return 0;
}
