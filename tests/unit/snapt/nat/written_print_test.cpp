#include "snapt/nat/written_print.hpp"

#include <gtest/gtest.h>

namespace continuo::snapt::nat {
namespace {

// A table as the kernel has it, and somebody who flushes it.
struct Kernel {
    uint32_t generation = UINT32_MAX;  // the next is 0
    uint64_t print = 0;
    unsigned writes = 0;
    unsigned flushes_before_read = 0;
    unsigned flushes_after_read = 0;

    void flush() {
        print = 0;
        ++generation;
    }
    TableAccess access() {
        return {[this] { return base::Result<uint32_t>(generation); },
                [this] {
                    ++writes;
                    ++generation;
                    print = 100 + writes;
                    return base::Result<uint32_t>(1);
                },
                [this] {
                    if (flushes_before_read != 0) {
                        --flushes_before_read;
                        flush();
                    }
                    const uint64_t read = print;
                    if (flushes_after_read != 0) {
                        --flushes_after_read;
                        flush();
                    }
                    return base::Result<uint64_t>(read);
                }};
    }
};

TEST(WrittenPrint, IsWhatWasWritten) {
    Kernel kernel;
    EXPECT_EQ(written_print(kernel.access()).value(), 101U);
    EXPECT_EQ(kernel.writes, 1U);
}

TEST(WrittenPrint, IsNeverThatOfSomebodyElsesFlush) {
    Kernel kernel;
    kernel.flushes_before_read = 2;
    EXPECT_EQ(written_print(kernel.access()).value(), 103U) << "written until nobody disturbs";
    kernel.flushes_after_read = 1;
    EXPECT_EQ(written_print(kernel.access()).value(), kernel.print);
    kernel.flushes_before_read = 1000;
    EXPECT_EQ(written_print(kernel.access()).value(), 0U) << "unknown";
    EXPECT_EQ(kernel.flushes_before_read, 1000U - kMaxWrites);
    kernel.flushes_before_read = 1;
    EXPECT_EQ(written_print(kernel.access(), 1).value(), 0U);
}

TEST(WrittenPrint, ATableThatIsLeftAsItIsMustBeThere) {
    Kernel kernel;
    TableAccess left = kernel.access();
    left.write = [] { return base::Result<uint32_t>(0); };
    EXPECT_EQ(written_print(left).value(), 0U);
    kernel.print = 7;
    EXPECT_EQ(written_print(left).value(), 7U);
    left.print = [] { return base::Result<uint64_t>(base::Error{base::Errc::System, "read"}); };
    EXPECT_FALSE(written_print(left));
}

}  // namespace
}  // namespace continuo::snapt::nat
