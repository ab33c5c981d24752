#include "tests/support/link/link_settings.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace continuo::tests {

using base::Duration;

namespace {

struct Unit {
    std::string_view name;
    double factor;
};
constexpr std::array kTimeUnits{Unit{"ns", 1}, Unit{"us", 1e3}, Unit{"ms", 1e6}, Unit{"s", 1e9}};
constexpr std::array kRateUnits{Unit{"", 1}, Unit{"k", 1e3}, Unit{"M", 1e6}, Unit{"G", 1e9}};
constexpr std::array kPlain{Unit{"", 1}};
constexpr std::array kChance{Unit{"", double{kCertain}}, Unit{"%", kCertain / 100.0}};

// A number with a unit; nothing unless 0 <= value <= most, after the unit.
std::optional<uint64_t>
read_number(std::string_view word, std::span<const Unit> units, double most) {
    double number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc{}) {
        return std::nullopt;
    }
    const std::string_view suffix = word.substr(static_cast<size_t>(end - word.data()));
    for (const Unit& unit : units) {
        const double value = number * unit.factor;
        if (suffix == unit.name && value >= 0 && value <= most) {
            return static_cast<uint64_t>(std::llround(value));
        }
    }
    return std::nullopt;
}

// How the value of a key is read. False: not such a value.
using Reader = bool (*)(LinkSettings&, std::string_view value);

template <uint32_t LinkSettings::*Member>
bool read_chance(LinkSettings& settings, std::string_view value) {
    const auto number = read_number(value, kChance, kCertain);
    settings.*Member = static_cast<uint32_t>(number.value_or(0));
    return number.has_value();
}

template <Duration LinkSettings::*Member>
bool read_time(LinkSettings& settings, std::string_view value) {
    const auto number =
        value == "0" ? std::optional<uint64_t>(0)
                     : read_number(value, kTimeUnits, static_cast<double>(kMaxLinkTime.count()));
    settings.*Member = Duration(static_cast<int64_t>(number.value_or(0)));
    return number.has_value();
}

bool read_rate(LinkSettings& settings, std::string_view value) {
    const auto number = value == "unlimited"
                            ? std::optional<uint64_t>(0)
                            : read_number(value, kRateUnits, double{kMaxBitsPerSecond});
    settings.bits_per_s = number.value_or(0);
    settings.trace = nullptr;
    return number.has_value() && (*number != 0 || value == "unlimited");
}

bool read_mtu(LinkSettings& settings, std::string_view value) {
    const auto number =
        value == "none" ? std::optional<uint64_t>(0) : read_number(value, kPlain, 65535);
    settings.mtu_bytes = static_cast<uint32_t>(number.value_or(0));
    return number.has_value();
}

bool read_queue(LinkSettings& settings, std::string_view value) {
    const auto number = read_number(value, kPlain, kMaxQueuePackets);
    settings.queue_packets = static_cast<uint32_t>(number.value_or(0));
    return number.value_or(0) > 0;
}

bool read_queue_bytes(LinkSettings& settings, std::string_view value) {
    const auto number = read_number(value, kRateUnits, 1e12);
    settings.queue_bytes = number.value_or(0);
    return number.has_value();
}

bool read_shape(LinkSettings& settings, std::string_view value) {
    constexpr std::array<std::string_view, 3> kNames{"uniform", "normal", "exponential"};
    for (size_t i = 0; i < kNames.size(); ++i) {
        if (value == kNames[i]) {
            settings.jitter_shape = static_cast<JitterShape>(i);
            return true;
        }
    }
    return false;
}

bool read_order(LinkSettings& settings, std::string_view value) {
    settings.keeps_order = value == "kept";
    return value == "kept" || value == "free";
}

// "P,R[,LOSS_IN_BAD[,LOSS_IN_GOOD]]" or "none".
bool read_burst(LinkSettings& settings, std::string_view value) {
    settings.burst = {};
    if (value == "none") {
        return true;
    }
    const std::array places{&settings.burst.good_to_bad_ppm, &settings.burst.bad_to_good_ppm,
                            &settings.burst.loss_in_bad_ppm, &settings.burst.loss_in_good_ppm};
    size_t count = 0;
    while (count < places.size()) {
        const std::string_view word = value.substr(0, value.find(','));
        const auto number = read_number(word, kChance, kCertain);
        if (!number) {
            return false;
        }
        *places[count++] = static_cast<uint32_t>(*number);
        if (word.size() == value.size()) {
            return count >= 2;
        }
        value.remove_prefix(word.size() + 1);
    }
    return false;
}

std::optional<LinkProtocols> protocols_named(std::string_view name) {
    if (name == "udp") {
        return bit_of(LinkProtocol::Udp);
    }
    if (name == "tcp") {
        return bit_of(LinkProtocol::Tcp);
    }
    if (name == "icmp") {
        return bit_of(LinkProtocol::Icmp);
    }
    return std::nullopt;
}

bool read_block(LinkSettings& settings, std::string_view value) {
    const auto protocols = protocols_named(value);
    settings.blocked = static_cast<LinkProtocols>(settings.blocked | protocols.value_or(0));
    return protocols.has_value();
}

bool read_unblock(LinkSettings& settings, std::string_view value) {
    const auto protocols = value == "all" ? std::optional(kEveryProtocol) : protocols_named(value);
    settings.blocked = static_cast<LinkProtocols>(settings.blocked & ~protocols.value_or(0));
    return protocols.has_value();
}

bool read_impair(LinkSettings& settings, std::string_view value) {
    const auto protocols =
        value == "all" ? std::optional(kImpairedByDefault) : protocols_named(value);
    settings.impaired = protocols.value_or(kImpairedByDefault);
    return protocols.has_value();
}

struct Key {
    std::string_view name;
    Reader read;
};
constexpr std::array kKeys{
    Key{"rate", read_rate},
    Key{"trace-from", read_time<&LinkSettings::trace_from>},
    Key{"queue", read_queue},
    Key{"queue-bytes", read_queue_bytes},
    Key{"mtu", read_mtu},
    Key{"delay", read_time<&LinkSettings::delay>},
    Key{"jitter", read_time<&LinkSettings::jitter>},
    Key{"jitter-shape", read_shape},
    Key{"order", read_order},
    Key{"loss", read_chance<&LinkSettings::loss_ppm>},
    Key{"burst", read_burst},
    Key{"reorder", read_chance<&LinkSettings::reorder_ppm>},
    Key{"reorder-by", read_time<&LinkSettings::reorder_by>},
    Key{"duplicate", read_chance<&LinkSettings::duplicate_ppm>},
    Key{"corrupt", read_chance<&LinkSettings::corrupt_ppm>},
    Key{"block", read_block},
    Key{"unblock", read_unblock},
    Key{"impair", read_impair},
};

bool read_trace(LinkSettings& settings, std::string_view value, std::string& fault) {
    settings.bits_per_s = 0;
    settings.trace = nullptr;
    if (value == "none") {
        return true;
    }
    auto trace = CapacityTrace::load(std::string(value), fault);
    if (trace) {
        settings.trace = std::make_shared<const CapacityTrace>(std::move(*trace));
    }
    return trace.has_value();
}

}  // namespace

bool read_setting(LinkSettings& settings,
                  std::span<const std::string_view>& words,
                  std::string& fault) {
    const std::string_view name = words.front();
    words = words.subspan(1);
    if (name == "up" || name == "down") {
        settings.is_up = name == "up";
        return true;
    }
    const auto* const key =
        std::find_if(kKeys.begin(), kKeys.end(), [&](const Key& one) { return one.name == name; });
    if (key == kKeys.end() && name != "trace") {
        fault = "no such setting: " + std::string(name);
        return false;
    }
    if (words.empty()) {
        fault = std::string(name) + " needs a value";
        return false;
    }
    const std::string_view value = words.front();
    words = words.subspan(1);
    if (name == "trace") {
        return read_trace(settings, value, fault);
    }
    if (!key->read(settings, value)) {
        fault = "not a value of " + std::string(name) + ": " + std::string(value);
        return false;
    }
    return true;
}

std::string_view setting_words() {
    return "  up | down                          down: all is dropped, what is under way too\n"
           "  rate BITS[k|M|G] | unlimited       per second, counted at layer 3\n"
           "  trace FILE | none                  capacity in Mahimahi's format, in place of a "
           "rate\n"
           "  trace-from TIME                    where in the trace to begin (TIME: 10ms, 250us, "
           "1s)\n"
           "  queue PACKETS, queue-bytes BYTES   drop-tail, before the rate; 0 bytes: no such "
           "limit\n"
           "  delay TIME                         one way\n"
           "  mtu BYTES | none                   larger packets vanish\n"
           "  block udp|tcp|icmp, unblock udp|tcp|icmp|all\n"
           "  jitter TIME, jitter-shape uniform|normal|exponential, order kept|free\n"
           "  loss P, duplicate P, corrupt P     P: 0.1 or 10%\n"
           "  burst P,R[,BAD[,GOOD]] | none      Gilbert-Elliott: good to bad, bad to good, loss "
           "in each\n"
           "  reorder P, reorder-by TIME         so many are held back so long\n"
           "  impair udp|tcp|icmp|all            what jitter, loss, burst, duplicate, corrupt, "
           "reorder hit\n";
}

}  // namespace continuo::tests
