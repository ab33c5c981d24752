#include "cnapt/commands/dns_restore.hpp"

#include "cnapt/names/resolv_file.hpp"
#include "cnapt/settings/default_paths.hpp"
#include "common/daemon/startup.hpp"
#include "common/host/privileges.hpp"
#include "common/io/file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace continuo::cnapt::commands {

using names::ResolvFile;

namespace {

std::string line(const std::string& place, const base::Error& error) {
    return place + ": " + daemon::describe(error) + "\n";
}

// Resolves links on the way to the name, but not the last part: open() checks that.
std::string resolved(std::string place) {
    while (place.size() > 1 && place.back() == '/') {
        place.pop_back();  // behind a link it would mean what the link leads to
    }
    const size_t slash = place.rfind('/');
    const std::string parent =
        slash == std::string::npos ? "." : place.substr(0, std::max<size_t>(slash, 1));
    std::array<char, PATH_MAX> absolute{};
    if (::realpath(parent.c_str(), absolute.data()) == nullptr) {
        return place;
    }
    const std::string before(absolute.data());
    return (before == "/" ? "" : before) + "/" + place.substr(slash + 1);
}

// Each place once: a place is locked while it is open. One that cannot be seen stays in the list;
// opening it then fails.
std::vector<std::string> existing(const std::vector<std::string>& places) {
    std::vector<std::string> found;
    for (const std::string& place : places) {
        std::string name = resolved(place);
        struct stat status {};
        if (::lstat(name.c_str(), &status) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
            continue;
        }
        if (std::find(found.begin(), found.end(), name) == found.end()) {
            found.push_back(std::move(name));
        }
    }
    return found;
}

// Does not follow a link: the owner of the directory may have made it to lead root to other files.
base::Result<ResolvFile> open_place(const std::string& resolv_conf, const std::string& place) {
    struct stat status {};
    if (::lstat(place.c_str(), &status) == 0 && S_ISLNK(status.st_mode)) {
        return base::Error{base::Errc::InvalidState, "it is a link, which is not followed", 0};
    }
    return ResolvFile::open(resolv_conf, place);  // nor if it becomes one now
}

}  // namespace

std::vector<std::string> kept_places_in(const std::string& state) {
    const std::string inner = state + (::geteuid() == 0 ? "/dns" : "/dns-user");
    struct stat status {};
    // A helper keeps nothing in another user's directory: that belongs to a daemon.
    const bool is_of_daemon = ::access(inner.c_str(), F_OK) == 0 ||
                              (::stat(state.c_str(), &status) == 0 && status.st_uid != ::geteuid());
    return {is_of_daemon ? inner : state};
}

std::vector<std::string> usual_kept_places(const std::string& resolv_conf) {
    std::vector<std::string> places;
    if (const auto text = io::read_file(resolv_conf, names::kMaxResolvConfBytes)) {
        if (const std::string_view named = names::kept_place(*text); !named.empty()) {
            places.emplace_back(named);
        }
    }
    places.emplace_back(settings::kDefaultResolverState);
    const auto of_daemon = kept_places_in(settings::kDefaultState);
    if (of_daemon.front() != settings::kDefaultState) {
        places.push_back(of_daemon.front());
    }
    return places;
}

DnsRestored restore_dns(const std::vector<std::string>& places, const std::string& resolv_conf) {
    std::vector<std::pair<std::string, base::Result<ResolvFile>>> files;
    for (const std::string& place : existing(places)) {
        files.emplace_back(place, open_place(resolv_conf, place));
    }
    static_cast<void>(io::keep_capabilities({}).has_value());
    DnsRestored outcome;
    for (auto& [place, file] : files) {
        const auto cleaned = file ? file->clean_up() : base::Result<bool>(file.error());
        if (cleaned && *cleaned) {
            return {true, ""};
        }
        outcome.failure += cleaned ? "" : line(place, cleaned.error());
    }
    return outcome;
}

}  // namespace continuo::cnapt::commands
