#include "snapt/nat/forwarding_parameters.hpp"

#include <algorithm>

namespace continuo::snapt::nat {

namespace {

constexpr const char* kAll = "all";

bool is_off(const std::string& key) {
    const auto value = host::read_sysctl(key);
    return value && *value == "0";
}

bool is_on(const std::string& key) {
    const auto value = host::read_sysctl(key);
    return value && *value != "0";
}

std::string key_of(const ForwardingPath& path, const std::string& interface) {
    return path.version == base::IpVersion::V4 ? "net/ipv4/conf/" + interface + "/forwarding"
                                               : "net/ipv6/conf/" + interface + "/force_forwarding";
}

// Either the kernel's global value or the interface's allows it.
bool is_on_at(const std::string& interface, const std::string& name) {
    return is_on("net/ipv4/conf/all/" + name) || is_on("net/ipv4/conf/" + interface + "/" + name);
}

bool goes_by_interfaces(const ForwardingPath& path) {
    return path.version == base::IpVersion::V4 ||
           (is_off(kForwardAll6) && host::read_sysctl(key_of(path, path.device)));
}

}  // namespace

std::vector<std::string> forwarding_keys(const ForwardingPath& path) {
    if (!goes_by_interfaces(path)) {
        return {kForwardAll6};
    }
    std::vector<std::string> keys = {key_of(path, path.device)};
    for (const std::string& name : path.egress) {
        keys.push_back(key_of(path, name));
    }
    std::erase_if(keys, [](const std::string& key) { return !host::read_sysctl(key); });
    return keys;
}

std::vector<std::string> forwarding_off(const ForwardingPath& path) {
    std::vector<std::string> keys = forwarding_keys(path);
    std::erase_if(keys, [](const std::string& key) { return !is_off(key); });
    return keys;
}

bool is_closed(const ForwardingPath& path) {
    if (!goes_by_interfaces(path)) {
        return is_off(kForwardAll6);
    }
    const auto is_off_at = [&](const std::string& name) { return is_off(key_of(path, name)); };
    return is_off_at(path.device) ||
           (!path.egress.empty() && std::all_of(path.egress.begin(), path.egress.end(), is_off_at));
}

bool may_switch_all_on(const ForwardingPath& path) {
    if (!is_off(kForwardAll4)) {
        return false;
    }
    const std::vector<std::string> names = host::ipv4_interfaces();
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
        return name == path.device ||
               std::find(path.egress.begin(), path.egress.end(), name) != path.egress.end() ||
               is_on(key_of(path, name));
    });
}

std::string filter_of_answers(const ForwardingPath& path) {
    const std::vector<std::string> names =
        path.egress.empty() ? host::ipv4_interfaces() : path.egress;
    const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
        return name != path.device && name != kAll && is_on_at(name, "rp_filter") &&
               !is_on_at(name, "src_valid_mark");
    });
    return found != names.end() ? *found : "";
}

}  // namespace continuo::snapt::nat
