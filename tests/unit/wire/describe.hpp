// Body items as the text of tests/vectors, and back to bytes.
#pragma once

#include "common/wire/body.hpp"
#include "tests/unit/wire/vector_file.hpp"

#include <string>

namespace continuo::wire::test {

// One line, as behind `item: `.
std::string describe(const BodyItem& item);
void serialize(const BodyItem& item, base::ByteWriter& writer);
// The size that the item encodes; for a section its head and content.
size_t size_of(const BodyItem& item);

}  // namespace continuo::wire::test
