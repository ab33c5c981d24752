// Suggestions for a misspelt word of the command line.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace continuo::report {

// The known word that is nearest to `word`; empty when none is near. Near is the only word that
// begins with it, or one with one mistake: a letter that is missing, wrong or one too many, or two
// neighbours that are swapped. In words of six letters and more two such mistakes are allowed.
std::string_view suggestion(std::string_view word, std::span<const std::string_view> known);

}  // namespace continuo::report
