// Suggestions for a misspelt word of the command line.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace continuo::report {

// The known word that is nearest to `word`; empty when none is near. Near is what begins with it
// as no other does, or differs by a letter that is missing, wrong or one too many, or by two
// neighbours that are swapped; in words of six letters and more by two such mistakes.
std::string_view suggestion(std::string_view word, std::span<const std::string_view> known);

}  // namespace continuo::report
