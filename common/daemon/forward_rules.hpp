// Effect of the host's nftables rules, those of iptables included, on packets that it forwards for
// a gateway or a SNAPT. An accept in Continuo's own chain does not help where another chain drops.
#pragma once

#include "common/base/result.hpp"
#include "common/report/findings.hpp"
#include "common/report/json_value.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace continuo::daemon {

// Forward chains that are looked at. A choice, not measured.
inline constexpr size_t kMaxForwardChains = 32;

struct ForwardChain {
    std::string family;  // "ip", "ip6", "inet"
    std::string table;
    std::string name;
    bool drops = false;  // by its policy

    std::string to_string() const { return family + " " + table + " " + name; }
    bool operator==(const ForwardChain&) const = default;
};

// The way of packets through this host. Unknown interfaces are not followed.
struct ForwardWay {
    std::string in;
    std::string out;
};

// Whether new connections that go that way pass.
enum class Passage : uint8_t {
    No,       // for certain
    Perhaps,  // by a rule with conditions that are not followed here
    Yes,
};

// Base chains of the forward hook, of `chains` (`nft -j list chains`), without Continuo's own.
std::vector<ForwardChain> forward_chains(const report::JsonValue& chains);
// The passage by the rules of `chain` and of the chains it leads to. `table` is the answer of `nft
// -j list table`.
Passage passage(const report::JsonValue& table, const ForwardChain& chain, const ForwardWay& way);
// No: by none of them. Yes: by each of them.
Passage passage(const report::JsonValue& table,
                const ForwardChain& chain,
                std::span<const ForwardWay> ways);

struct BlockingChain {
    ForwardChain chain;
    Passage passage = Passage::No;
};
struct BlockingChains {
    std::vector<BlockingChain> found;
    size_t not_looked_at = 0;  // above kMaxForwardChains, or not readable
};
// The chains of this host that do not, or not for sure, let packets pass by some of the ways; one
// that lets none pass by any has Passage::No. Milliseconds, more with many rules. Errors: System
// (no right, no nftables).
base::Result<BlockingChains> blocking_chains(std::span<const ForwardWay> ways);

// The finding "forward policy". `names`: of the interfaces, as in "snapt0 and wan".
void check_forward_rules(std::span<const ForwardWay> ways,
                         const std::string& names,
                         report::Findings& findings);

// Says what has failed, each as a warning.
void log_failures(const report::Findings& findings);

}  // namespace continuo::daemon
