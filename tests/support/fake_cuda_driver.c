/* A libcuda of the tests: what the agent calls of it, as CUPTI sees it. */
#include <stdint.h>

uint64_t *fake_call(uint32_t id);
void fake_return(uint32_t id, uint64_t *kept);

int cuDeviceGetCount(int *count)
{
    uint64_t *kept = fake_call(4);
    *count = 0;
    fake_return(4, kept);
    return 0;
}
