// The same through NVTX's C++ interface.
#include <nvtx3/nvtx3.hpp>
#include <thread>

struct library {
    static constexpr char const *name{"a library"};
};

struct step {
    static constexpr char const *message{"registered by its type"};
};

struct category {
    static constexpr char const *name{"reading"};
    static constexpr uint32_t id{7};
};

void function()
{
    NVTX3_FUNC_RANGE_IN(library);
    nvtx3::mark_in<library>("mark");
}

int main()
{
    nvtx3::scoped_range whole{"whole"};
    function();
    {
        auto const &text = nvtx3::registered_string_in<library>::get<step>();
        auto const &kind = nvtx3::named_category_in<library>::get<category>();
        nvtx3::scoped_range_in<library> range{
            nvtx3::event_attributes{text, kind, nvtx3::rgb{1, 2, 3}, nvtx3::payload{5}}};
    }
    nvtx3::unique_range moved{L"ended in another thread"};
    std::thread{[range = std::move(moved)] {}}.join();
    try {
        nvtx3::scoped_range thrown{"left by an exception"};
        throw 1;
    } catch (int) {
    }
}
