#pragma once
#include <cstddef>

// Inlined wherever it is called, as two functions.
template <typename T> inline __attribute__((always_inline)) void spin(volatile T &value, int rounds)
{
    for (int n = 0; n < rounds; n++) value = value * 3 + 1; // here: spin
}

void fill(char *memory, size_t size);
