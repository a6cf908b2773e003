// Fills one vector again and again; its memory is reserved once.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <vector>
int main()
{
    std::mt19937 random(1);
    std::vector<unsigned> values;
    values.reserve(1 << 20);
    unsigned total = 0;
    auto begun = std::chrono::steady_clock::now();
    for (int round = 0; round < 15; round++) {
        values.clear();
        for (int i = 0; i < 1 << 20; i++)
            values.push_back(random());
        std::sort(values.begin(), values.end());
        total += values[values.size() / 2];
    }
    printf("seconds %f %u\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(), total);
}
