// The program snapt.
#include "snapt/cli.hpp"

int main(int argc, char** argv) {
    const auto count = static_cast<size_t>(argc > 0 ? argc - 1 : 0);
    return continuo::snapt::run_program(std::span<const char* const>(argv + 1, count));
}
