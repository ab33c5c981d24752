// The web page: files that are part of the program, ready to serve.
#pragma once

#include <string_view>

namespace continuo::rest {

struct PageFile {
    std::string_view name;  // path without "/"
    std::string_view content_type;
    std::string_view text;
};

// Null: no file of that name.
const PageFile* page_file(std::string_view name);

// Content-Security-Policy: only own resources, no script in the markup, no framing.
inline constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace continuo::rest
