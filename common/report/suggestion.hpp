// Suggestions for a misspelt word of the command line.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace continuo::report {

// The known word nearest to `word`; empty when none is near. Near is the only word that begins with
// it, or one with one mistake: a missing, wrong or extra letter, or two swapped neighbours. Words
// of six letters and more may have two such mistakes.
std::string_view suggestion(std::string_view word, std::span<const std::string_view> known);

}  // namespace continuo::report
