#include "cnapt/uplinks/interface_name.hpp"

#include <algorithm>

namespace continuo::cnapt::uplinks {

namespace {

constexpr size_t kMaxInterfaceName = 15;

}  // namespace

bool is_safe_interface_name(std::string_view name) {
    const auto is_safe = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("_.@:-").find(c) != std::string_view::npos;
    };
    return !name.empty() && name.size() <= kMaxInterfaceName && name.front() != '-' &&
           name != "." && name != ".." && std::all_of(name.begin(), name.end(), is_safe);
}

bool is_gateway_pattern(std::string_view text) {
    if (text.ends_with('*')) {
        return text.size() <= kMaxInterfaceName &&
               is_safe_interface_name(text.substr(0, text.size() - 1));
    }
    return is_safe_interface_name(text);
}

}  // namespace continuo::cnapt::uplinks
