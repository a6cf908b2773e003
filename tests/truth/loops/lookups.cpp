// Fills a hash table, sorts its keys once, then looks up batches of keys.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>
int main()
{
    std::mt19937 random(1);
    std::unordered_map<std::string, long> table;
    std::vector<std::string> keys;
    for (int i = 0; i < 400000; i++) {
        keys.push_back("key " + std::to_string(random()));
        table[keys.back()] = i;
    }
    std::sort(keys.begin(), keys.end());
    auto begun = std::chrono::steady_clock::now();
    long total = 0;
    for (int batch = 0; batch < 40; batch++)
        for (int i = 0; i < 60000; i++) {
            auto found = table.find(keys[random() % keys.size()]);
            total += found->second;
        }
    std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
    std::printf("seconds %f %ld\n", taken.count(), total);
}
