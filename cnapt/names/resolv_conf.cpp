#include "cnapt/names/resolv_conf.hpp"

#include "cnapt/settings/node_config.hpp"

#include <algorithm>

namespace continuo::cnapt::names {

namespace {

constexpr std::string_view kFirstLine =
    "# Made by cnapt: names are looked up through its tunnel while it is up.";
constexpr std::string_view kBeforePlace = "\n# What was here is kept in ";
constexpr std::string_view kAfterPlace = " and comes back.\n";
constexpr std::string_view kTrustOption = "trust-ad";
constexpr std::string_view kBlanks = " \t\r";

// Calls `each(keyword, rest)` for every line that is no comment.
template <typename Each>
void for_each_line(std::string_view text, Each each) {
    while (!text.empty()) {
        const size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
        line = line.substr(0, line.find_last_not_of(kBlanks) + 1);
        const size_t blank = line.find_first_of(kBlanks);
        const std::string_view keyword = line.substr(0, blank);
        if (keyword.empty() || keyword.front() == '#' || keyword.front() == ';') {
            continue;
        }
        const size_t rest = line.find_first_not_of(kBlanks, blank);
        each(keyword, rest == std::string_view::npos ? std::string_view() : line.substr(rest));
    }
}

// "KEYWORD REST", without options that apply only to the original's servers; empty if nothing is
// left.
std::string kept_line(std::string_view keyword, std::string_view rest) {
    std::string line(keyword);
    while (!rest.empty()) {
        rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
        const std::string_view word = rest.substr(0, rest.find_first_of(kBlanks));
        rest.remove_prefix(word.size());
        if (!word.empty() && (keyword != "options" || word != kTrustOption)) {
            line.append(" ").append(word);
        }
    }
    return line.size() == keyword.size() ? std::string() : line + "\n";
}

bool is_printable(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return c == '\t' || (c >= ' ' && c < '\x7F'); });
}

}  // namespace

std::vector<base::IpAddress> name_servers(std::string_view text) {
    std::vector<base::IpAddress> servers;
    for_each_line(text, [&](std::string_view keyword, std::string_view rest) {
        if (keyword != "nameserver" || servers.size() >= settings::kMaxNameServers) {
            return;
        }
        const auto address = base::IpAddress::parse(rest.substr(0, rest.find_first_of(kBlanks)));
        if (address) {
            servers.push_back(*address);
        }
    });
    return servers;
}

std::string resolv_conf_through(std::span<const base::IpAddress> servers,
                                std::string_view original,
                                std::string_view saved) {
    std::string text(kFirstLine);
    text.append(kBeforePlace).append(saved).append(kAfterPlace);
    for (const base::IpAddress& server : servers) {
        text.append("nameserver ").append(server.to_string()).append("\n");
    }
    for_each_line(original, [&](std::string_view keyword, std::string_view rest) {
        const bool is_kept = keyword == "search" || keyword == "domain" || keyword == "options";
        if (is_kept && is_printable(rest)) {
            text.append(kept_line(keyword, rest));
        }
    });
    return text;
}

bool is_resolv_conf_of_tunnel(std::string_view text) {
    return text.substr(0, kFirstLine.size()) == kFirstLine;
}

std::string_view kept_place(std::string_view text) {
    if (!is_resolv_conf_of_tunnel(text)) {
        return {};
    }
    text.remove_prefix(kFirstLine.size());
    const size_t end = text.find(kAfterPlace);
    if (text.substr(0, kBeforePlace.size()) != kBeforePlace || end == std::string_view::npos) {
        return {};
    }
    return text.substr(kBeforePlace.size(), end - kBeforePlace.size());
}

bool is_stub_of_resolved(std::string_view text) {
    static const base::IpAddress stub = base::IpAddress::v4(0x7F000035U);  // 127.0.0.53
    const auto servers = name_servers(text);
    return servers.size() == 1 && servers.front() == stub;
}

}  // namespace continuo::cnapt::names
