#include "cnapt/dns_restore.hpp"

#include "cnapt/cli.hpp"
#include "cnapt/resolv_file.hpp"
#include "common/daemon/startup.hpp"
#include "common/io/file.hpp"
#include "common/io/privileges.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <utility>

#include <unistd.h>

namespace continuo::cnapt {

namespace {

std::string line(const std::string& place, const base::Error& error) {
    return place + ": " + daemon::describe(error) + "\n";
}

// Without links, and each once: a place is locked while it is open. What cannot be seen stays, for
// the failure to open it.
std::vector<std::string> existing(const std::vector<std::string>& places) {
    std::vector<std::string> found;
    for (const std::string& place : places) {
        std::array<char, PATH_MAX> absolute{};
        const bool is_there = ::realpath(place.c_str(), absolute.data()) != nullptr;
        if (!is_there && (errno == ENOENT || errno == ENOTDIR)) {
            continue;
        }
        std::string name = is_there ? std::string(absolute.data()) : place;
        if (std::find(found.begin(), found.end(), name) == found.end()) {
            found.push_back(std::move(name));
        }
    }
    return found;
}

}  // namespace

std::vector<std::string> kept_places_in(const std::string& state) {
    std::string inner = state + (::geteuid() == 0 ? "/dns" : "/dns-user");
    return {::access(inner.c_str(), F_OK) == 0 ? std::move(inner) : state};
}

std::vector<std::string> usual_kept_places(const std::string& resolv_conf) {
    std::vector<std::string> places;
    if (const auto text = io::read_file(resolv_conf, kMaxResolvConfBytes)) {
        if (const std::string_view named = kept_place(*text); !named.empty()) {
            places.emplace_back(named);
        }
    }
    places.emplace_back(kDefaultResolverState);
    const auto of_daemon = kept_places_in(kDefaultState);
    if (of_daemon.front() != kDefaultState) {
        places.push_back(of_daemon.front());
    }
    return places;
}

DnsRestored restore_dns(const std::vector<std::string>& places, const std::string& resolv_conf) {
    std::vector<std::pair<std::string, base::Result<ResolvFile>>> files;
    for (const std::string& place : existing(places)) {
        files.emplace_back(place, ResolvFile::open(resolv_conf, place));
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

}  // namespace continuo::cnapt
