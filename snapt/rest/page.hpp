// The web page: files that are part of the program, as they are served.
#pragma once

#include <string_view>

namespace continuo::rest {

struct PageFile {
    std::string_view name;  // path without "/"
    std::string_view content_type;
    std::string_view text;
};

// Null: there is none of that name.
const PageFile* page_file(std::string_view name);

// Content-Security-Policy: nothing from elsewhere, no script in the markup, in nobody's frame.
inline constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace continuo::rest
