// A graph in vectors, made by one function; then threads search it from many starts.
#include <chrono>
#include <cstdio>
#include <queue>
#include <random>
#include <thread>
#include <vector>
using Graph = std::vector<std::vector<int>>;
static Graph made(int count)
{
    std::mt19937 random(3);
    Graph graph(count);
    for (int i = 0; i < count * 8; i++)
        graph[random() % count].push_back(random() % count);
    return graph;
}
static long reach(const Graph &graph, int start)
{
    std::vector<int> depth(graph.size(), -1);
    std::queue<int> next;
    next.push(start);
    depth[start] = 0;
    long total = 0;
    while (!next.empty()) {
        int here = next.front();
        next.pop();
        for (int other : graph[here])
            if (depth[other] < 0) {
                depth[other] = depth[here] + 1;
                total += depth[other];
                next.push(other);
            }
    }
    return total;
}
int main()
{
    Graph graph = made(250000);
    auto begun = std::chrono::steady_clock::now();
    long totals[2] = {0, 0};
    for (int round = 0; round < 10; round++) {
        std::vector<std::thread> threads;
        for (int number = 0; number < 2; number++)
            threads.emplace_back([&, number] { totals[number] += reach(graph, round * 100 + number); });
        for (auto &thread : threads)
            thread.join();
    }
    std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begun;
    std::printf("seconds %f %ld\n", taken.count(), totals[0] + totals[1]);
}
