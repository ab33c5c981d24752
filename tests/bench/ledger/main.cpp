// bench_ledger: the ledger of a SNAPT under crashes, full disks and unusual times, in the library
// alone. Prints one line of JSON per trial; exit code 1 with a sentence when a record is missing,
// duplicated or wrong.
#include "tests/bench/ledger/trial.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <unistd.h>

namespace {

using continuo::bench::Settings;

struct Trial {
    std::string_view name;
    void (*run)(const Settings&);
    uint64_t few_rounds;  // of `all --few`: some seconds in all
};

constexpr Trial kTrials[] = {
    {"kill", continuo::bench::run_kill, 40},   {"power", continuo::bench::run_power, 60},
    {"full", continuo::bench::run_full, 6},    {"wrap", continuo::bench::run_wrap, 1},
    {"clock", continuo::bench::run_clock, 10}, {"zones", continuo::bench::run_zones, 1},
    {"seal", continuo::bench::run_seal, 1},    {"month", continuo::bench::run_month, 20'000},
};

constexpr const char* kUsage =
    "usage: bench_ledger kill|power|full|wrap|clock|zones|seal|month|all "
    "[--rounds N] [--seed N] [--few]\n"
    "                    [--folder DIR]\n";

[[noreturn]] void refuse() {
    std::fputs(kUsage, stderr);
    std::exit(64);
}

}  // namespace

int main(int count, char** words) {
    Settings settings;
    settings.folder = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    bool has_few = false;
    if (count < 2) {
        refuse();
    }
    for (int i = 2; i < count; ++i) {
        const std::string_view option = words[i];
        if (option == "--few") {
            has_few = true;
        } else if (i + 1 == count) {
            refuse();
        } else if (option == "--rounds") {
            settings.rounds = std::strtoull(words[++i], nullptr, 10);
        } else if (option == "--seed") {
            settings.seed = std::strtoull(words[++i], nullptr, 10);
        } else if (option == "--folder") {
            settings.folder = words[++i];
        } else {
            refuse();
        }
    }
    const std::string_view wanted = words[1];
    bool is_known = false;
    for (const Trial& trial : kTrials) {
        if (wanted == trial.name || wanted == "all") {
            is_known = true;
            Settings own = settings;
            own.rounds = has_few ? trial.few_rounds : settings.rounds;
            trial.run(own);
            std::fflush(stdout);
        }
    }
    if (!is_known) {
        refuse();
    }
    return 0;
}
