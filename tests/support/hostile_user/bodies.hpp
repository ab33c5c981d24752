// Bodies that cost a SNAPT more than their length, if it lets them.
#pragma once

#include "tests/support/hostile_user/forge.hpp"

#include <vector>

namespace continuo::tests {

// Three compressed sections that are 135 packets of zeros.
Body expanding_body();
// As many ACKs as fit, of every second number, of the oldest part of `highest` numbers of HtHd.
Body ack_body(uint32_t highest);
// As many of one kind of frame as fit and are valid, by the number in turn: FRAGMENT, FLOOR,
// CHALLENGE, CLOSED, ORDER, and a COPY with a packet. For datagrams of the class LtLd.
Body frames_body(uint32_t round);
// A packet that is answered with one of its length; two lengths in turn.
std::vector<uint8_t> echo_request(size_t number);
// Makes that path the return path; padded.
std::vector<uint8_t> announcement(uint8_t path, uint16_t number);

}  // namespace continuo::tests
