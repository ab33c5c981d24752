#include "snapt/nat_question.hpp"

#include "common/config/units.hpp"
#include "common/report/json.hpp"
#include "snapt/accounting/account.hpp"
#include "snapt/accounting/time_zone.hpp"
#include "snapt/nat_log.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <limits>
#include <map>
#include <string_view>

namespace continuo::snapt {

using base::Errc;
using base::Error;
using base::Result;

namespace {

constexpr int64_t kSecondUs = 1'000'000;
// A log that goes on has a line each minute.
constexpr int64_t kMostSilenceUs = 2 * kNatAliveUs;
constexpr size_t kLinesBetweenLooks = 4096;

enum Field : size_t {
    kTime,
    kEvent,
    kNumber,
    kProtocol,
    kInner,
    kInnerPort,
    kOuter,
    kOuterPort,
    kDestination,
    kDestinationPort,
    kAccount,
    kUser,
    kNode,
    kFields,
};

std::vector<std::string_view> fields_of(std::string_view line) {
    std::vector<std::string_view> fields;
    for (size_t from = 0; from <= line.size() && fields.size() < kFields;) {
        const size_t comma = std::min(line.find(',', from), line.size());
        fields.push_back(line.substr(from, comma - from));
        from = comma + 1;
    }
    return fields;
}

template <typename Number>
std::optional<Number> number_of(std::string_view text) {
    Number number = 0;
    const auto got = std::from_chars(text.data(), text.data() + text.size(), number);
    return got.ec == std::errc() && got.ptr == text.data() + text.size() ? std::optional(number)
                                                                         : std::nullopt;
}

std::optional<int64_t> parse_moment(const std::string& text, const std::string& zone) {
    const auto seconds = config::parse_unsigned(text, 253'402'300'799);  // the end of 9999
    if (seconds) {
        return static_cast<int64_t>(*seconds) * kSecondUs;
    }
    const auto loaded = TimeZone::load(zone);
    return loaded ? loaded->parse_time_us(text) : std::nullopt;
}

// Follows the lines of the files, one after the other.
class Search {
  public:
    explicit Search(const NatQuestion& question) : question_(question) {
        needle_.append(",").append(question.outer.address.to_string()).append(",");
        needle_.append(std::to_string(question.outer.port)).append(",");
    }
    void take(std::string_view line);
    NatAnswer finish();

  private:
    void take_run(std::string_view event, int64_t at_us);
    void take_translation(const std::vector<std::string_view>& fields, int64_t at_us);
    bool is_in_question(int64_t from_us, int64_t to_us) const {
        return from_us <= question_.to_us && to_us >= question_.from_us;
    }

    const NatQuestion& question_;
    std::string needle_;
    std::map<std::string, NatUse, std::less<>> found_;  // by number
    std::optional<int64_t> last_us_;                    // of the line before
    bool is_whole_ = true;
};

void Search::take(std::string_view line) {
    const size_t first = line.find(',');
    const size_t second = std::min(line.find(',', first + 1), line.size());
    const auto at_us =
        first == std::string_view::npos ? std::nullopt : number_of<int64_t>(line.substr(0, first));
    if (!at_us) {
        return;  // cut by a crash
    }
    const std::string_view event = line.substr(first + 1, second - first - 1);
    if (event == "end") {
        const auto known = found_.find(line.substr(std::min(second + 1, line.size())));
        if (known != found_.end()) {
            known->second.until_us = *at_us;
        }
    } else if (event == "begin" || event == "found" || event == "open") {
        if (line.find(needle_) != std::string_view::npos) {
            take_translation(fields_of(line), *at_us);
        }
    } else {
        take_run(event, *at_us);
    }
    if (event != "open") {  // has the time of another day
        last_us_ = std::max(last_us_.value_or(*at_us), *at_us);
    }
}

void Search::take_run(std::string_view event, int64_t at_us) {
    const int64_t since = last_us_.value_or(std::numeric_limits<int64_t>::min());
    if (event == "start") {
        // What went on is found again, and has a line of its own. When the rest ended is not known.
        for (auto& [number, use] : found_) {
            use.until_us = use.until_us ? use.until_us : at_us;
        }
        is_whole_ = is_whole_ && !is_in_question(since, at_us - 1);
    } else if (event == "lost") {
        is_whole_ = is_whole_ && !is_in_question(since, at_us);
    }
}

void Search::take_translation(const std::vector<std::string_view>& fields, int64_t at_us) {
    const bool is_meant = fields.size() == kFields &&
                          fields[kOuter] == question_.outer.address.to_string() &&
                          number_of<uint16_t>(fields[kOuterPort]) == question_.outer.port &&
                          (!question_.protocol || fields[kProtocol] == *question_.protocol);
    if (!is_meant || at_us > question_.to_us || found_.contains(fields[kNumber])) {
        return;
    }
    NatUse use;
    use.from_us = at_us;
    use.is_from_known = fields[kEvent] != "found";
    use.protocol = fields[kProtocol];
    use.inner = fields[kInner];
    use.inner_port = number_of<uint16_t>(fields[kInnerPort]).value_or(0);
    if (const auto address = base::IpAddress::parse(fields[kDestination])) {
        use.destination = {*address, number_of<uint16_t>(fields[kDestinationPort]).value_or(0)};
    }
    use.account_id = number_of<int64_t>(fields[kAccount]).value_or(0);
    use.user = fields[kUser];
    use.node = fields[kNode];
    found_.emplace(fields[kNumber], std::move(use));
}

NatAnswer Search::finish() {
    NatAnswer answer;
    for (auto& [number, use] : found_) {
        if (use.until_us && *use.until_us < question_.from_us) {
            continue;
        }
        if (answer.uses.size() < kMaxNatUses) {
            answer.uses.push_back(std::move(use));
        } else {
            ++answer.left_out;
        }
    }
    std::stable_sort(answer.uses.begin(), answer.uses.end(),
                     [](const NatUse& a, const NatUse& b) { return a.from_us < b.from_us; });
    answer.is_whole = is_whole_ && last_us_ && *last_us_ + kMostSilenceUs >= question_.to_us;
    return answer;
}

}  // namespace

std::optional<NatQuestion> parse_nat_question(const NatQuestionText& text, std::string& failure) {
    NatQuestion question;
    const auto outer = base::Endpoint::parse(text.outer);
    if (!outer || outer->port == 0) {
        failure = "ext \"" + text.outer +
                  "\"; expected an address with its port, such as "
                  "203.0.113.9:40001 or [2001:db8::9]:40001";
        return std::nullopt;
    }
    question.outer = *outer;
    const auto at_us = parse_moment(text.at, text.zone);
    if (!at_us) {
        failure = "at \"" + text.at +
                  "\"; expected a time such as 2026-12-01T12:00:00Z, or Unix "
                  "seconds, and a known zone";
        return std::nullopt;
    }
    const auto within = config::parse_unsigned(text.within.value_or("0"), kMaxNatWithinS);
    if (!within) {
        failure = "within \"" + *text.within + "\"; expected seconds, " +
                  std::to_string(kMaxNatWithinS) + " at most";
        return std::nullopt;
    }
    if (text.protocol && *text.protocol != "tcp" && *text.protocol != "udp") {
        failure = "proto \"" + *text.protocol + "\"; expected tcp or udp";
        return std::nullopt;
    }
    question.protocol = text.protocol;
    const auto span_us = static_cast<int64_t>(*within) * kSecondUs;
    question.from_us = *at_us - span_us;
    question.to_us = *at_us + span_us + kSecondUs - 1;
    return question;
}

Result<NatAnswer> find_nat_uses(const std::string& folder,
                                const NatQuestion& question,
                                const std::function<bool()>& give_up) {
    // A file goes on until the first line of the next day.
    std::vector<std::string> paths = {nat_file(folder, question.from_us - kMostSilenceUs)};
    if (const std::string last = nat_file(folder, question.to_us); last != paths.front()) {
        paths.push_back(last);
    }
    Search search(question);
    bool is_any = false;
    for (const std::string& path : paths) {
        std::ifstream file(path);
        if (!file) {
            continue;
        }
        is_any = true;
        std::string line;
        for (size_t count = 1; std::getline(file, line); ++count) {
            if (count % kLinesBetweenLooks == 0 && give_up && give_up()) {
                return Error{Errc::LimitReached, "it takes too long", 0};
            }
            search.take(line);
        }
        if (file.bad()) {
            return Error{Errc::System, "read the log of translations", EIO};
        }
    }
    if (!is_any) {
        return Error{Errc::NotFound, "nothing was logged on that day; see [nat_log] in snapt.toml",
                     0};
    }
    return search.finish();
}

std::string nat_answer_json(const NatQuestion& question, const NatAnswer& answer) {
    report::JsonWriter json;
    json.begin_object().field("ext", question.outer.to_string());
    json.field("from", question.from_us / kSecondUs).field("to", question.to_us / kSecondUs);
    json.field("logged", answer.is_whole).key("uses").begin_array();
    for (const NatUse& use : answer.uses) {
        json.begin_object().field("user", use.user).field("account", use.account_id);
        json.field("node", use.node).field("proto", use.protocol);
        json.field("inner", use.inner).field("inner_port", use.inner_port);
        json.field("dst", use.destination ? std::optional(use.destination->address.to_string())
                                          : std::nullopt);
        json.field("dport", use.destination ? std::optional(use.destination->port) : std::nullopt);
        json.field("from", static_cast<double>(use.from_us) / kSecondUs);
        json.field("from_known", use.is_from_known);
        json.field("until", use.until_us
                                ? std::optional(static_cast<double>(*use.until_us) / kSecondUs)
                                : std::nullopt);
        json.end_object();
    }
    json.end_array().field("left_out", static_cast<uint64_t>(answer.left_out)).end_object();
    return json.take();
}

}  // namespace continuo::snapt
