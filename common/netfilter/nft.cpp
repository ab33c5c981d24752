#include "common/netfilter/nft.hpp"

#include <cerrno>
#include <charconv>
#include <memory>

extern "C" {
#include <nftables/libnftables.h>
}

namespace continuo::netfilter {

namespace {

using base::Errc;
using base::Error;
using base::Result;

uint64_t take_number(std::string_view text, std::string_view after) {
    const size_t at = text.find(after);
    uint64_t number = 0;
    if (at != std::string_view::npos) {
        text.remove_prefix(at + after.size());
        std::from_chars(text.data(), text.data() + text.size(), number);
    }
    return number;
}

std::string add_table(std::string_view table) {
    return "add table " + std::string(table) + "\n";
}

}  // namespace

Result<std::string>
Nft::run(std::string_view commands, unsigned output_flags, std::string_view where) {
    // A context caches its lists, counters included, until a rule changes: hence a new one each
    // time.
    struct Free {
        void operator()(nft_ctx* context) const { nft_ctx_free(context); }
    };
    const std::unique_ptr<nft_ctx, Free> context(nft_ctx_new(NFT_CTX_DEFAULT));
    if (!context || nft_ctx_buffer_output(context.get()) != 0 ||
        nft_ctx_buffer_error(context.get()) != 0) {
        return Error{Errc::System, where, ENOMEM};
    }
    nft_ctx_output_set_flags(context.get(), output_flags);
    const int outcome = nft_run_cmd_from_buffer(context.get(), std::string(commands).c_str());
    const char* output = nft_ctx_get_output_buffer(context.get());
    const char* error = nft_ctx_get_error_buffer(context.get());
    error_text_ = error != nullptr ? error : "";
    if (outcome != 0) {
        const bool missing = error_text_.find("No such file or directory") != std::string::npos;
        return Error{missing ? Errc::NotFound : Errc::System, where};
    }
    return std::string(output != nullptr ? output : "");
}

Result<void> Nft::apply(std::string_view ruleset_text) {
    const auto done = run(ruleset_text, 0, "apply nftables rules");
    return done ? Result<void>() : done.error();
}

Result<void> Nft::remove_table(std::string_view table) {
    // Adding the table first makes its removal succeed even if there is none.
    return apply(add_table(table) + "delete table " + std::string(table) + "\n");
}

Result<bool> Nft::has_chain(std::string_view table, std::string_view chain) {
    const auto listed = run("list chain " + std::string(table) + " " + std::string(chain) + "\n", 0,
                            "list nftables chain");
    if (!listed && listed.error().code != Errc::NotFound) {
        return listed.error();
    }
    return listed.has_value();
}

Result<std::string> Nft::list_chains_json() {
    return run("list chains\n", NFT_CTX_OUTPUT_JSON, "list nftables chains");
}

Result<std::string> Nft::list_table_json(std::string_view table) {
    return run("list table " + std::string(table) + "\n",
               unsigned{NFT_CTX_OUTPUT_JSON} | unsigned{NFT_CTX_OUTPUT_TERSE},
               "list nftables table");
}

Result<std::vector<NftCounter>> Nft::counters(std::string_view table) {
    // counter NAME { packets N bytes N }, over several lines, inside table { }.
    const std::string text = CTN_TRY(
        run("list counters table " + std::string(table) + "\n", 0, "list nftables counters"));
    constexpr std::string_view kKeyword = "counter ";
    std::vector<NftCounter> found;
    for (size_t at = text.find(kKeyword); at != std::string::npos; at = text.find(kKeyword, at)) {
        at += kKeyword.size();
        const size_t end_of_name = text.find(' ', at);
        const size_t end = text.find('}', at);
        if (end_of_name == std::string::npos || end == std::string::npos) {
            break;
        }
        const std::string_view body = std::string_view(text).substr(at, end - at);
        found.push_back({text.substr(at, end_of_name - at), take_number(body, "packets "),
                         take_number(body, "bytes ")});
        at = end;
    }
    return found;
}

Result<NftCounter> Nft::counter(std::string_view table, std::string_view name) {
    for (NftCounter& counter : CTN_TRY(counters(table))) {
        if (counter.name == name) {
            return std::move(counter);
        }
    }
    return Error{Errc::NotFound, "nftables counter"};
}

void OwnedTable::Free::operator()(nft_ctx* context) const {
    nft_ctx_free(context);
}

Result<void> OwnedTable::make(std::string_view ruleset_text) {
    std::unique_ptr<nft_ctx, Free> context(nft_ctx_new(NFT_CTX_DEFAULT));
    if (!context || nft_ctx_buffer_error(context.get()) != 0) {
        return Error{Errc::System, "make nftables table", ENOMEM};
    }
    context_.reset();  // a former one owns the name
    if (nft_run_cmd_from_buffer(context.get(), std::string(ruleset_text).c_str()) != 0) {
        return Error{Errc::System, "make nftables table"};
    }
    context_ = std::move(context);
    return {};
}

}  // namespace continuo::netfilter
