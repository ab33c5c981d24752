// Table by flow index in pages that are made when first needed: an idle session costs little and a
// peer that picks a high index makes one page, not the whole table. Elements never move.
#pragma once

#include "common/elision/types.hpp"

#include <array>
#include <memory>
#include <vector>

namespace continuo::elision {

template <typename T>
class PagedTable {
  public:
    // Null when the index was never made.
    T* find(uint32_t index) {
        const size_t page = index / kPageElements;
        return page < pages_.size() && pages_[page] ? &(*pages_[page])[index % kPageElements]
                                                    : nullptr;
    }
    const T* find(uint32_t index) const { return const_cast<PagedTable*>(this)->find(index); }
    bool has_page(uint32_t index) const {
        const size_t page = index / kPageElements;
        return page < pages_.size() && pages_[page];
    }
    // Memory that make() takes for an index without a page, apart from the list of pages.
    static constexpr size_t page_bytes() { return sizeof(Page); }
    // `index` is at most kMaxFlowIndex.
    T& make(uint32_t index) {
        const size_t page = index / kPageElements;
        if (page >= pages_.size()) {
            pages_.resize(page + 1);
        }
        if (!pages_[page]) {
            pages_[page] = std::make_unique<Page>();
        }
        return (*pages_[page])[index % kPageElements];
    }

  private:
    static constexpr size_t kPageElements = 16;
    using Page = std::array<T, kPageElements>;
    std::vector<std::unique_ptr<Page>> pages_;
};

}  // namespace continuo::elision
