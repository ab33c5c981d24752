#include "common/netlink/generic_netlink.hpp"

#include <algorithm>

#include <linux/genetlink.h>

namespace continuo::netlink {

using base::ByteView;
using base::Errc;
using base::Error;
using base::Result;

std::optional<uint32_t> GenericFamily::group(std::string_view wanted) const {
    const auto at = std::find_if(groups.begin(), groups.end(),
                                 [&](const Group& one) { return one.name == wanted; });
    return at == groups.end() ? std::nullopt : std::optional(at->id);
}

NetlinkRequest generic_request(uint16_t family, uint8_t command, uint16_t flags) {
    NetlinkRequest request(family, flags);
    genlmsghdr header{};
    header.cmd = command;
    request.fixed(header);
    return request;
}

uint8_t generic_command(const NetlinkMessage& message) {
    return message.fixed<genlmsghdr>().cmd;
}

ByteView generic_attributes(const NetlinkMessage& message) {
    return message.attributes(sizeof(genlmsghdr));
}

std::optional<GenericFamily> parse_generic_family(const NetlinkMessage& message) {
    if (message.type != GENL_ID_CTRL || generic_command(message) != CTRL_CMD_NEWFAMILY) {
        return std::nullopt;
    }
    const ByteView attributes = generic_attributes(message);
    const auto id = find_attribute(attributes, CTRL_ATTR_FAMILY_ID);
    GenericFamily family;
    if (!id || id->size() < sizeof family.id) {
        return std::nullopt;
    }
    std::memcpy(&family.id, id->data(), sizeof family.id);
    family.name = find_text(attributes, CTRL_ATTR_FAMILY_NAME);
    if (family.id < NLMSG_MIN_TYPE || family.name.empty()) {
        return std::nullopt;
    }
    if (const auto groups = find_attribute(attributes, CTRL_ATTR_MCAST_GROUPS)) {
        for_each_attribute(*groups, [&](uint16_t, ByteView one) {
            const auto number = find_u32(one, CTRL_ATTR_MCAST_GRP_ID);
            std::string name = find_text(one, CTRL_ATTR_MCAST_GRP_NAME);
            if (number && !name.empty()) {
                family.groups.push_back({std::move(name), *number});
            }
        });
    }
    return family;
}

Result<GenericFamily> find_generic_family(NetlinkSocket& socket, std::string_view name) {
    NetlinkRequest request = generic_request(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, NLM_F_DUMP);
    std::optional<GenericFamily> found;
    CTN_TRY(socket.list(request, "list generic netlink", [&](const NetlinkMessage& message) {
        auto family = parse_generic_family(message);
        if (family && family->name == name) {
            found = std::move(family);
        }
    }));
    if (!found) {
        return Error{Errc::NotFound, "find generic netlink family"};
    }
    return *found;
}

}  // namespace continuo::netlink
