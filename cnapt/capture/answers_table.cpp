#include "cnapt/capture/answers_table.hpp"

namespace continuo::cnapt::capture {

namespace {

// `table`: "inet NAME".
base::Result<size_t> count_rules(const std::string& table) {
    auto netfilter = CTN_TRY(netfilter::NetfilterClient::open());
    return netfilter.count_rules(std::string_view(table).substr(table.find(' ') + 1));
}

}  // namespace

base::Result<void> AnswersTable::set(const std::string& table, const std::string& text) {
    if (text == text_ && CTN_TRY(is_whole(table))) {
        return {};
    }
    const auto made = make(table, text);
    if (!made) {
        // The table of before is still there, and nobody would supervise it.
        static_cast<void>(remove(table));
    }
    return made;
}

base::Result<void> AnswersTable::make(const std::string& table, const std::string& text) {
    CTN_TRY(nft_.apply(text));
    rules_ = CTN_TRY(count_rules(table));
    text_ = text;
    return {};
}

base::Result<bool> AnswersTable::is_whole(const std::string& table) const {
    return text_.empty() || CTN_TRY(count_rules(table)) == rules_;
}

base::Result<void> AnswersTable::remove(const std::string& table) {
    text_.clear();
    return nft_.remove_table(table);
}

}  // namespace continuo::cnapt::capture
