#include "common/host/sysctl.hpp"

#include "common/io/file.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

namespace continuo::host {

namespace {

using base::Errc;
using base::Error;
using base::Result;

constexpr size_t kMaxValueBytes = 4096;
constexpr size_t kMaxRecordBytes = 1 << 20;

// Keys come from our own builders; this keeps an odd interface name or a damaged record inside
// /proc/sys.
bool is_safe_key(std::string_view key) {
    return !key.empty() && key.front() != '/' && key.find("..") == std::string_view::npos &&
           key.find_first_of("\t\n") == std::string_view::npos;
}

std::string path_of(std::string_view key) {
    return "/proc/sys/" + std::string(key);
}

bool parse_number(std::string_view text, int64_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
}

std::string_view take_field(std::string_view& line) {
    const size_t tab = line.find('\t');
    const std::string_view field = line.substr(0, tab);
    line.remove_prefix(tab == std::string_view::npos ? line.size() : tab + 1);
    return field;
}

// Vectors such as tcp_rmem contain tabs; the record separates fields with them, and the kernel
// takes either.
std::string with_spaces(std::string value) {
    std::replace(value.begin(), value.end(), '\t', ' ');
    return value;
}

// Interfaces with their own settings, and "default", for new ones; none on a kernel without that
// version.
std::vector<std::string> interfaces_in(const char* folder) {
    std::vector<std::string> names;
    struct Close {
        void operator()(DIR* directory) const { ::closedir(directory); }
    };
    const std::unique_ptr<DIR, Close> directory(::opendir(folder));
    while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr) {
        const std::string name(static_cast<const char*>(entry->d_name));
        if (name != "." && name != ".." && name != "all") {
            names.push_back(name);
        }
    }
    return names;
}

std::vector<std::string> ipv6_interfaces() {
    return interfaces_in("/proc/sys/net/ipv6/conf");
}

std::string disable_ipv6_of(std::string_view name) {
    return "net/ipv6/conf/" + std::string(name) + "/disable_ipv6";
}

}  // namespace

Result<std::string> read_sysctl(std::string_view key) {
    if (!is_safe_key(key)) {
        return Error{Errc::NotFound, "sysctl key"};
    }
    std::string value = CTN_TRY(io::read_file(path_of(key), kMaxValueBytes));
    while (!value.empty() && value.back() == '\n') {
        value.pop_back();
    }
    return with_spaces(std::move(value));
}

Result<void> write_sysctl(std::string_view key, std::string_view value) {
    if (!is_safe_key(key)) {
        return Error{Errc::NotFound, "sysctl key"};
    }
    const io::UniqueFd file(::open(path_of(key).c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.is_open()) {
        return Error{errno == ENOENT ? Errc::NotFound : Errc::System, "open sysctl", errno};
    }
    if (::write(file.value(), value.data(), value.size()) != static_cast<ssize_t>(value.size())) {
        return Error{Errc::System, "write sysctl", errno};
    }
    return {};
}

bool has_ipv6(std::string_view device) {
    const auto value = read_sysctl(disable_ipv6_of(device));
    return value && *value == "0";
}

std::string ipv6_switched_off(std::string_view own_device) {
    const std::vector<std::string> names = ipv6_interfaces();
    if (names.empty()) {
        return "ipv6.disable = 1 on the kernel's command line";
    }
    const bool is_off = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
        return name == own_device || name == "lo" || !has_ipv6(name);
    });
    return is_off ? "net.ipv6.conf.all.disable_ipv6 = 1" : "";
}

Result<void> switch_ipv6(std::string_view device, bool is_on) {
    return write_sysctl(disable_ipv6_of(device), is_on ? "0" : "1");
}

std::vector<std::string> ipv4_interfaces() {
    std::vector<std::string> names = interfaces_in("/proc/sys/net/ipv4/conf");
    std::erase_if(names, [](const std::string& name) { return name == "lo" || name == "default"; });
    return names;
}

std::vector<std::string> interfaces_with_router_advertisements() {
    std::vector<std::string> names = ipv6_interfaces();
    std::erase_if(names, [](const std::string& name) {
        const auto value = read_sysctl("net/ipv6/conf/" + name + "/accept_ra");
        return name == "lo" || name == "default" || !value || *value != "1";
    });
    return names;
}

Result<SysctlGuard> SysctlGuard::open(std::string record_path) {
    SysctlGuard guard(std::move(record_path));
    CTN_TRY(guard.load());
    CTN_TRY(guard.restore());
    return guard;
}

Result<void> SysctlGuard::load() {
    const auto record = io::read_file(record_path_, kMaxRecordBytes);
    if (!record) {
        return record.error().code == Errc::NotFound ? Result<void>() : record.error();
    }
    std::string_view rest = *record;
    while (!rest.empty()) {
        const size_t end = rest.find('\n');
        std::string_view line = rest.substr(0, end);
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
        const std::string_view key = take_field(line);
        const std::string_view before = take_field(line);
        if (is_safe_key(key)) {
            changes_.push_back(Change{std::string(key), std::string(before), std::string(line)});
        }
    }
    return {};
}

Result<void> SysctlGuard::save() const {
    std::string record;
    for (const Change& change : changes_) {
        record += change.key + '\t' + change.before + '\t' + change.ours + '\n';
    }
    return io::write_file_atomically(record_path_, record);
}

void SysctlGuard::remember(std::string_view key) {
    if (const auto value = read_sysctl(key)) {
        former_.emplace(key, *value);
    }
}

Result<void> SysctlGuard::set(const SysctlSetting& setting) {
    remember(setting.key);
    const auto before = read_sysctl(setting.key);
    if (!before) {
        return setting.optional && before.error().code == Errc::NotFound ? Result<void>()
                                                                         : before.error();
    }
    int64_t is = 0;
    int64_t wanted = 0;
    const bool is_enough = setting.at_least && parse_number(*before, is) &&
                           parse_number(setting.value, wanted) && is >= wanted;
    if (*before == setting.value || is_enough) {
        return {};
    }
    const auto known = std::find_if(changes_.begin(), changes_.end(), [&](const Change& change) {
        return change.key == setting.key;
    });
    if (known != changes_.end() && known->ours == setting.value) {
        return write_sysctl(setting.key, setting.value);
    }
    if (known != changes_.end()) {
        known->ours = setting.value;
    } else {
        const auto former = former_.find(setting.key);
        changes_.push_back(
            Change{setting.key, former != former_.end() ? former->second : *before, setting.value});
    }
    CTN_TRY(save());
    return write_sysctl(setting.key, setting.value);
}

Result<void> SysctlGuard::restore() {
    Result<void> outcome;
    // NOLINTNEXTLINE(modernize-loop-convert): std::views of libstdc++ 12 and clang 14 do not agree
    for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
        const auto current = read_sysctl(change->key);
        // Gone with its interface, or changed by another program meanwhile.
        if (!current || *current != change->ours) {
            continue;
        }
        if (auto done = write_sysctl(change->key, change->before); !done) {
            outcome = done;
        }
    }
    if (outcome) {
        changes_.clear();
        outcome = io::remove_file(record_path_);
    }
    return outcome;
}

}  // namespace continuo::host
