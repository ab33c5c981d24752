#include "common/process/ping_sockets.hpp"

#include "common/io/file.hpp"

#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

namespace continuo::process {
namespace {

using base::Errc;
using base::Error;
using base::IpAddress;
using base::Result;

// Longest list of ping sockets that is read. A choice, not measured.
constexpr size_t kMaxListBytes = size_t{1} << 20U;
constexpr int kHexadecimal = 16;
constexpr size_t kWordDigits = 8;

// Columns of a line, as `head -1 /proc/net/icmp` names them; "tx_queue rx_queue" and "tr tm->when"
// count as one each.
constexpr size_t kLocalPlace = 1;
constexpr size_t kRemotePlace = 2;
constexpr size_t kUserPlace = 7;
constexpr size_t kInodePlace = 9;

template <typename Number>
std::optional<Number> number_of(std::string_view text, int base) {
    Number number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
    const bool is_whole = error == std::errc() && end == text.data() + text.size();
    return is_whole ? std::optional(number) : std::nullopt;
}

std::vector<std::string_view> words_of(std::string_view line) {
    std::vector<std::string_view> words;
    while (true) {
        const size_t begin = line.find_first_not_of(' ');
        if (begin == std::string_view::npos) {
            return words;
        }
        line.remove_prefix(begin);
        const size_t end = std::min(line.find(' '), line.size());
        words.push_back(line.substr(0, end));
        line.remove_prefix(end);
    }
}

struct Name {
    IpAddress address;
    uint16_t number = 0;  // echo identifier
};

// "0500A8C0:1A2B": 32-bit words of the address in memory order, then the identifier.
std::optional<Name> parse_name(std::string_view text) {
    const size_t colon = text.find(':');
    if (colon != kWordDigits && colon != 4 * kWordDigits) {
        return std::nullopt;
    }
    std::array<uint8_t, 16> octets{};
    for (size_t at = 0; at < colon; at += kWordDigits) {
        const auto word = number_of<uint32_t>(text.substr(at, kWordDigits), kHexadecimal);
        if (!word) {
            return std::nullopt;
        }
        std::memcpy(&octets[at / 2], &*word, sizeof *word);
    }
    const auto number = number_of<uint16_t>(text.substr(colon + 1), kHexadecimal);
    if (!number) {
        return std::nullopt;
    }
    const base::ByteView bytes(octets);
    return Name{colon == kWordDigits ? IpAddress::v4(bytes.first(4)) : IpAddress::v6(bytes),
                *number};
}

bool fits(const Name& name, const IpAddress& address) {
    return name.address.is_unspecified() || name.address == address;
}

}  // namespace

Result<PingSocket> find_ping_socket(std::string_view list, const packet::FiveTuple& tuple) {
    while (!list.empty()) {
        const size_t end = std::min(list.find('\n'), list.size());
        const std::vector<std::string_view> words = words_of(list.substr(0, end));
        list.remove_prefix(std::min(end + 1, list.size()));
        if (words.size() <= kInodePlace) {
            continue;
        }
        const auto local = parse_name(words[kLocalPlace]);
        const auto remote = parse_name(words[kRemotePlace]);
        const auto user = number_of<uint32_t>(words[kUserPlace], 10);
        const auto inode = number_of<uint64_t>(words[kInodePlace], 10);
        if (local && remote && user && inode && local->number == tuple.local_port &&
            fits(*local, tuple.local) && fits(*remote, tuple.remote)) {
            return PingSocket{*inode, *user};
        }
    }
    return Error{Errc::NotFound, "socket"};
}

Result<PingSocket> find_ping_socket(const packet::FiveTuple& tuple) {
    const std::string list = CTN_TRY(
        io::read_file(tuple.local.is_v4() ? "/proc/net/icmp" : "/proc/net/icmp6", kMaxListBytes));
    return find_ping_socket(list, tuple);
}

}  // namespace continuo::process
