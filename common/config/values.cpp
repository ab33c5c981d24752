#include "common/config/values.hpp"

#include "common/config/units.hpp"

#include <algorithm>

namespace continuo::config {
namespace {

constexpr size_t kMaxHostBytes = 253;  // RFC 1035 section 2.3.4, without the root's dot
constexpr size_t kMaxLabelBytes = 63;

bool is_alphanumeric(char character) {
    return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
           (character >= '0' && character <= '9');
}

bool is_host_name(std::string_view text) {
    if (text.empty() || text.size() > kMaxHostBytes) {
        return false;
    }
    bool has_letter = false;
    while (!text.empty()) {
        const size_t dot = std::min(text.find('.'), text.size());
        const std::string_view label = text.substr(0, dot);
        if (label.empty() || label.size() > kMaxLabelBytes || label.front() == '-' ||
            label.back() == '-') {
            return false;
        }
        for (const char character : label) {
            if (!is_alphanumeric(character) && character != '-' && character != '_') {
                return false;
            }
            has_letter = has_letter || character < '0' || character > '9';
        }
        text.remove_prefix(std::min(dot + 1, text.size()));
    }
    return has_letter;  // digits and dots alone are a mistyped address
}

std::optional<uint16_t> parse_port(std::string_view text) {
    const auto port = parse_unsigned(text, UINT16_MAX);
    if (!port || *port == 0) {
        return std::nullopt;
    }
    return static_cast<uint16_t>(*port);
}

bool is_interface_text(std::string_view text, size_t maximum) {
    return !text.empty() && text.size() <= maximum && text != "." && text != ".." &&
           std::all_of(text.begin(), text.end(), [](char character) {
               return character > ' ' && character < 0x7F && character != '/' && character != '"';
           });
}

}  // namespace

std::optional<HostPort> HostPort::parse(std::string_view text) {
    HostPort result;
    if (text.starts_with('[')) {
        const size_t close = text.find(']');
        if (close == std::string_view::npos) {
            return std::nullopt;
        }
        result.host = text.substr(1, close - 1);
        text.remove_prefix(close + 1);
        const auto address = base::IpAddress::parse(result.host);
        if (!address || address->is_v4()) {
            return std::nullopt;
        }
        result.host = address->to_string();
    } else if (const auto address = base::IpAddress::parse(text); address) {
        result.host = address->to_string();
        return result;
    } else {
        const size_t colon = std::min(text.find(':'), text.size());
        result.host = text.substr(0, colon);
        text.remove_prefix(colon);
        if (!base::IpAddress::parse(result.host) && !is_host_name(result.host)) {
            return std::nullopt;
        }
    }
    if (text.empty()) {
        return result;
    }
    const auto port = parse_port(text.substr(1));
    if (text.front() != ':' || !port) {
        return std::nullopt;
    }
    result.port = *port;
    return result;
}

std::optional<base::Endpoint> HostPort::endpoint() const {
    const auto address = base::IpAddress::parse(host);
    if (!address) {
        return std::nullopt;
    }
    return base::Endpoint{*address, port};
}

std::string HostPort::to_string() const {
    const auto address = endpoint();
    return address ? address->to_string() : host + ":" + std::to_string(port);
}

std::optional<PortRange> PortRange::parse(std::string_view text) {
    const size_t dash = text.find('-');
    const auto first = parse_port(text.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : parse_port(text.substr(dash + 1));
    if (!first || !last || *first > *last) {
        return std::nullopt;
    }
    return PortRange{*first, *last};
}

std::string PortRange::to_string() const {
    return first == last ? std::to_string(first)
                         : std::to_string(first) + "-" + std::to_string(last);
}

std::optional<std::string_view> check_name(std::string_view text) {
    const bool good =
        !text.empty() && text.size() <= kMaxNameBytes &&
        std::all_of(text.begin(), text.end(), [](char character) {
            return is_alphanumeric(character) ||
                   std::string_view("._-@+").find(character) != std::string_view::npos;
        });
    if (good) {
        return std::nullopt;
    }
    return "a name of 1 to 64 letters, digits and \"._-@+\"";
}

std::optional<std::string_view> check_interface(std::string_view text) {
    if (is_interface_text(text, kMaxInterfaceBytes) &&
        text.find_first_of("*?[]:") == std::string_view::npos) {
        return std::nullopt;
    }
    return "an interface name of at most 15 characters";
}

std::optional<std::string_view> check_interface_glob(std::string_view text) {
    if (is_interface_text(text, kMaxNameBytes)) {
        return std::nullopt;
    }
    return "an interface name or glob such as \"wlan*\"";
}

std::optional<std::string_view> check_not_empty(std::string_view text) {
    const bool is_plain = std::none_of(text.begin(), text.end(), [](char character) {
        return static_cast<uint8_t>(character) < ' ' || character == 0x7F;
    });
    if (text.empty() || !is_plain) {
        return "a string that is not empty, without control characters";
    }
    return std::nullopt;
}

bool is_unicast(const base::IpAddress& address) {
    if (address.is_unspecified()) {
        return false;
    }
    if (address.is_v4()) {
        return (address.octets[0] & 0xF0U) != 0xE0U && address.to_v4() != UINT32_MAX;
    }
    return address.octets[0] != 0xFF;
}

std::string commented_line(std::string text, std::string_view comment, size_t column) {
    if (!comment.empty()) {
        text.resize(std::max(text.size() + 1, column), ' ');
        text += "# ";
        text += comment;
    }
    return text + "\n";
}

}  // namespace continuo::config
