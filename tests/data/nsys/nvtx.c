/* NVTX without a GPU: nested ranges, a domain with a registered string, start/end ranges, marks, a range left open. */
#include <stdio.h>
#include <unistd.h>

#include "nvtx3/nvToolsExt.h"

int main(void)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA("pinprof");
    nvtxEventAttributes_t alloc = {0};
    alloc.version = NVTX_VERSION;
    alloc.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    alloc.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    alloc.message.registered = nvtxDomainRegisterStringA(domain, "alloc");
    for (int i = 0; i < 3; i++) {
        nvtxRangePushA("iteration");
        nvtxDomainRangePushEx(domain, &alloc);
        usleep(1500);
        nvtxDomainRangePop(domain);
        nvtxRangeId_t side = nvtxRangeStartA("side");
        usleep(500);
        nvtxRangeEnd(side);
        nvtxMarkA("tick");
        nvtxRangePop();
    }
    nvtxRangePushA("unclosed");
    nvtxNameOsThreadA(getpid(), "worker");
    puts("done");
    return 0;
}
