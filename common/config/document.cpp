#include "common/config/document.hpp"

#include <algorithm>

namespace continuo::config {

const Member* Node::find(std::string_view key) const {
    const auto found = std::find_if(members.begin(), members.end(),
                                    [key](const Member& member) { return member.key == key; });
    return found == members.end() ? nullptr : &*found;
}

std::string Node::describe() const {
    switch (kind) {
    case NodeKind::Text:
        return quoted_value(text);
    case NodeKind::List:
        return "a list";
    case NodeKind::Table:
        return "a table";
    default:
        return printable(source);
    }
}

}  // namespace continuo::config
