#include "common/config/base64.hpp"

#include <gtest/gtest.h>

namespace continuo::config {
namespace {

std::string encode(std::string_view text) {
    const std::vector<uint8_t> bytes(text.begin(), text.end());
    return to_base64(bytes);
}

std::optional<std::string> decode(std::string_view text) {
    const auto bytes = from_base64(text);
    return bytes ? std::optional(std::string(bytes->begin(), bytes->end())) : std::nullopt;
}

TEST(Base64, HasTheVectorsOfRfc4648Section10) {
    const std::pair<std::string_view, std::string_view> vectors[] = {{"", ""},
                                                                     {"f", "Zg=="},
                                                                     {"fo", "Zm8="},
                                                                     {"foo", "Zm9v"},
                                                                     {"foob", "Zm9vYg=="},
                                                                     {"fooba", "Zm9vYmE="},
                                                                     {"foobar", "Zm9vYmFy"}};
    for (const auto& [plain, coded] : vectors) {
        EXPECT_EQ(encode(plain), coded);
        EXPECT_EQ(decode(coded), plain);
    }
}

TEST(Base64, GoesRoundForEveryByte) {
    std::vector<uint8_t> all;
    for (int byte = 0; byte < 256; ++byte) {
        all.push_back(static_cast<uint8_t>(byte));
        EXPECT_EQ(from_base64(to_base64(all)), all);
    }
}

TEST(Base64, RefusesEveryOtherForm) {
    for (const std::string_view wrong : {"Z", "Zg", "Zg=", "Zm9v=", "=", "====", "Zm9vYg==Zm9v",
                                         "Zm 9", "Zm9_", "Zh==", "Zm9=", "Zg==\n", "Z==="}) {
        EXPECT_FALSE(from_base64(wrong)) << wrong;
    }
}

}  // namespace
}  // namespace continuo::config
