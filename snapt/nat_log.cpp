#include "snapt/nat_log.hpp"

#include "common/io/file.hpp"
#include "snapt/accounting/time_zone.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>

namespace continuo::snapt {
namespace {

constexpr std::string_view kPrefix = "nat-";
constexpr std::string_view kSuffix = ".csv";
constexpr int64_t kJustListedUs = 1'000'000;
constexpr int64_t kDayUs = int64_t{86'400} * 1'000'000;

std::string protocol_text(uint8_t protocol) {
    return protocol == IPPROTO_TCP   ? "tcp"
           : protocol == IPPROTO_UDP ? "udp"
                                     : std::to_string(protocol);
}

std::string end_text(const base::IpAddress& address, uint16_t port) {
    std::string text = address.to_string();
    text += ',';
    text += std::to_string(port);
    return text;
}

}  // namespace

void NatOwners::set(const base::IpAddress& lease, const NatOwner& owner) {
    const std::scoped_lock lock(mutex_);
    owners_[lease] = owner;
}

NatOwner NatOwners::find(const base::IpAddress& lease) const {
    const std::scoped_lock lock(mutex_);
    const auto known = owners_.find(lease);
    return known != owners_.end() ? known->second : NatOwner{"?", "?", 0};
}

std::string nat_file(const std::string& folder, int64_t at_us) {
    std::string path = folder;
    path.append("/").append(kPrefix).append(TimeZone::utc().day(at_us)).append(kSuffix);
    return path;
}

// Numbers of runs of a day are apart: no translation takes less than a microsecond.
void NatLog::start(int64_t now_us) {
    next_number_ = static_cast<uint64_t>(std::max<int64_t>(now_us, 1));
    open_file(now_us);
    line(now_us, "start");
}

void NatLog::begin(const io::TrackedConnection& connection, int64_t now_us) {
    const auto known = open_.find(connection);
    if (known != open_.end() && now_us - known->second.began_us < kJustListedUs) {
        return;  // the list had it before
    }
    end(connection, now_us);  // whose end was not told
    add(connection, now_us, "begin");
}

void NatLog::end(const io::TrackedConnection& connection, int64_t now_us) {
    if (const auto known = open_.find(connection); known != open_.end()) {
        line(now_us, "end," + std::to_string(known->second.number));
        open_.erase(known);
    }
}

void NatLog::all_there(std::span<const io::TrackedConnection> connections, int64_t now_us) {
    const std::set<io::TrackedConnection> there(connections.begin(), connections.end());
    for (auto at = open_.begin(); at != open_.end();) {
        const auto known = at++;
        if (!there.contains(known->first)) {
            line(now_us, "end," + std::to_string(known->second.number));
            open_.erase(known);
        }
    }
    for (const io::TrackedConnection& connection : there) {
        if (!open_.contains(connection)) {
            add(connection, now_us, "found");
        }
    }
}

void NatLog::note_overrun(int64_t now_us) {
    ++counters_.overruns;
    line(now_us, "lost,0");
}

void NatLog::flush(int64_t now_us) {
    if (now_us - last_line_us_ >= kNatAliveUs) {
        line(now_us, "alive");
    }
    const bool is_other_day = path_ != nat_file(options_.folder, now_us);
    if (is_other_day && fd_.is_open() && !write()) {
        return;  // what is of that day goes there
    }
    if (is_other_day || !fd_.is_open()) {
        open_file(now_us);
    }
    if (is_other_day) {
        line(now_us, "next");
        for (const auto& [connection, translation] : open_) {
            line_of(connection, translation, translation.began_us, "open");
        }
    }
    write();
}

void NatLog::stop(int64_t now_us) {
    line(now_us, "stop");
    write();
}

void NatLog::add(const io::TrackedConnection& connection, int64_t now_us, const char* event) {
    if (open_.size() >= kMaxOpenTranslations) {
        ++counters_.unlogged;
        return;
    }
    const Translation translation{next_number_++, now_us, owners_.find(connection.source)};
    line_of(connection, translation, now_us, event);
    open_.emplace(connection, translation);
}

void NatLog::line_of(const io::TrackedConnection& connection,
                     const Translation& translation,
                     int64_t at_us,
                     const char* event) {
    std::string text = event;
    text += "," + std::to_string(translation.number);
    text += "," + protocol_text(connection.protocol);
    text += "," + end_text(connection.source, connection.source_port);
    text += "," + end_text(connection.translated, connection.translated_port);
    text += options_.has_destinations
                ? "," + end_text(connection.destination, connection.destination_port)
                : std::string(",,");
    text += "," + std::to_string(translation.owner.account_id);
    text += "," + translation.owner.user;
    text += "," + translation.owner.node;
    line(at_us, text);
}

void NatLog::line(int64_t at_us, const std::string& rest) {
    const auto append = [this, at_us](const std::string& text) {
        unwritten_ += std::to_string(at_us);
        unwritten_ += ',';
        unwritten_ += text;
        unwritten_ += '\n';
        ++unwritten_lines_;
    };
    if (unwritten_.size() >= kMaxUnwrittenBytes) {
        counters_.lost_lines += unwritten_lines_;
        lost_to_tell_ += unwritten_lines_;
        unwritten_.clear();
        unwritten_lines_ = 0;
        append("lost," + std::to_string(lost_to_tell_));
    }
    append(rest);
    last_line_us_ = std::max(last_line_us_, at_us);
}

bool NatLog::write() {
    size_t written = 0;
    bool is_good = fd_.is_open();
    while (is_good && written < unwritten_.size()) {
        const ssize_t sent =
            ::write(fd_.value(), unwritten_.data() + written, unwritten_.size() - written);
        is_good = sent > 0 || (sent < 0 && errno == EINTR);
        written += sent > 0 ? static_cast<size_t>(sent) : 0;
    }
    unwritten_.erase(0, written);
    counters_.open = open_.size();
    counters_.has_write_error = !is_good;
    if (is_good) {
        counters_.lines += std::exchange(unwritten_lines_, 0);
        lost_to_tell_ = 0;
    }
    return is_good;
}

// A line that a crash has cut is ended.
void NatLog::open_file(int64_t now_us) {
    static_cast<void>(io::make_directories(options_.folder, 0700));
    path_ = nat_file(options_.folder, now_us);
    fd_.reset(::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
    if (fd_.is_open()) {
        const off_t size = ::lseek(fd_.value(), 0, SEEK_END);
        char last = '\n';
        if (size > 0 && ::pread(fd_.value(), &last, 1, size - 1) == 1 && last != '\n') {
            static_cast<void>(::write(fd_.value(), "\n", 1) == 1);
        }
    }
    remove_old_files(now_us);
}

void NatLog::remove_old_files(int64_t now_us) const {
    const std::string oldest =
        std::filesystem::path(
            nat_file(options_.folder, now_us - int64_t{options_.retention_days} * kDayUs))
            .filename();
    std::error_code failed;
    std::filesystem::directory_iterator entry(options_.folder, failed);
    for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
        const std::string name = entry->path().filename();
        if (name.starts_with(kPrefix) && name.ends_with(kSuffix) && name.size() == oldest.size() &&
            name < oldest) {
            static_cast<void>(io::remove_file(entry->path()));
        }
    }
}

}  // namespace continuo::snapt
