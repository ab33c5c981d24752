// Generic netlink: families that the kernel numbers when it loads them, found by their names.
// linux/genetlink.h.
#pragma once

#include "common/netlink/netlink.hpp"

namespace continuo::netlink {

struct GenericFamily {
    uint16_t id = 0;  // the type of its messages
    std::string name;
    struct Group {
        std::string name;
        uint32_t id = 0;
    };
    std::vector<Group> groups;  // multicast

    std::optional<uint32_t> group(std::string_view wanted) const;
};

// A message of a family: genlmsghdr, then attributes.
NetlinkRequest generic_request(uint16_t family, uint8_t command, uint16_t flags = 0);
// 0, which is no command, when the message is too short to have one.
uint8_t generic_command(const NetlinkMessage& message);
base::ByteView generic_attributes(const NetlinkMessage& message);

// Parses an answer to CTRL_CMD_GETFAMILY.
std::optional<GenericFamily> parse_generic_family(const NetlinkMessage& message);
// `socket`: NETLINK_GENERIC. Looks in the list of existing families: asking for one by name would
// make the kernel load its module. Errors: NotFound when there is no such family, System.
base::Result<GenericFamily> find_generic_family(NetlinkSocket& socket, std::string_view name);

}  // namespace continuo::netlink
