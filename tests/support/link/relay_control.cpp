#include "tests/support/link/relay_control.hpp"

#include <algorithm>

namespace continuo::tests {

namespace {

constexpr std::array<std::string_view, 2> kDirectionNames{"a-to-b", "b-to-a"};

std::vector<std::string_view> split(std::string_view text) {
    constexpr std::string_view kSpace = " \t\r\n";
    std::vector<std::string_view> words;
    for (size_t at = text.find_first_not_of(kSpace); at != std::string_view::npos;
         at = text.find_first_not_of(kSpace, at)) {
        const size_t end = std::min(text.find_first_of(kSpace, at), text.size());
        words.push_back(text.substr(at, end - at));
        at = end;
    }
    return words;
}

void add(std::string& json, std::string_view name, uint64_t value) {
    json += json.back() == '{' ? "\"" : ", \"";
    json += name;
    json += "\": " + std::to_string(value);
}

std::string to_json(const LinkModel& model, const CarrierCounters& carrier) {
    const LinkCounters& counters = model.counters();
    std::string json = "{";
    add(json, "offered_packets", counters.offered_packets);
    add(json, "offered_bytes", counters.offered_bytes);
    add(json, "delivered_packets", counters.delivered_packets);
    add(json, "delivered_bytes", counters.delivered_bytes);
    for (size_t i = 0; i < kLinkDropNames.size(); ++i) {
        add(json, "dropped_" + std::string(kLinkDropNames[i]), counters.dropped[i]);
    }
    add(json, "duplicated", counters.duplicated);
    add(json, "reordered", counters.reordered);
    add(json, "corrupted", counters.corrupted);
    add(json, "queued_packets", model.queued_packets());
    add(json, "queued_bytes", model.queued_bytes());
    add(json, "most_queued_packets", counters.most_queued_packets);
    add(json, "in_flight_packets", model.in_flight_packets());
    add(json, "kernel_drops", carrier.kernel_drops);
    add(json, "send_failures", carrier.send_failures);
    return json + "}";
}

}  // namespace

std::string RelayControl::stats() {
    std::string json = "{";
    for (size_t i = 0; i < directions_.size(); ++i) {
        json += (i == 0 ? "\"" : ", \"") + std::string(kDirectionNames[i]) +
                "\": " + to_json(*directions_[i], carrier_(i));
    }
    return json + "}";
}

std::string RelayControl::answer(std::string_view command, base::TimePoint now) {
    const std::vector<std::string_view> words = split(command);
    if (words.size() == 1 && words[0] == "stats") {
        return stats();
    }
    std::array<LinkSettings, 2> settings{directions_[0]->settings(), directions_[1]->settings()};
    std::array<bool, 2> chosen{true, true};
    std::span<const std::string_view> rest(words);
    while (!rest.empty()) {
        if (rest[0] == "both" || rest[0] == kDirectionNames[0] || rest[0] == kDirectionNames[1]) {
            chosen = {rest[0] != kDirectionNames[1], rest[0] != kDirectionNames[0]};
            rest = rest.subspan(1);
            continue;
        }
        std::span<const std::string_view> after = rest;
        for (size_t i = 0; i < settings.size(); ++i) {
            std::string fault;
            after = chosen[i] ? rest : after;
            if (chosen[i] && !read_setting(settings[i], after, fault)) {
                return "error: " + fault;
            }
        }
        rest = after;
    }
    for (size_t i = 0; i < settings.size(); ++i) {
        directions_[i]->change(std::move(settings[i]), now);
    }
    return "ok";
}

}  // namespace continuo::tests
