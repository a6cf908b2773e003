/* The driver's functions, of pinprof/data/gpu_functions.py; those in which processes meet, of
 * pinprof/data/meeting_functions.py; where CPython keeps its frames, of pinprof/collect/python_frames/layout.py.
 * Written by tools/agent_functions.py.
 */
/* clang-format off */

enum role_flag {
    GRANTS = 1,
    COPIES = 2,
    SINGLE = 4,  /* each call is recorded by itself */
    TOUCHES = 8, /* it makes or pins pages of the host */
    MEETS = 16,    /* processes meet in it (meetings.h) */
    NUMBERED = 32, /* all ranks of its communicator call it in one order */
    ENDS = 64,     /* it ends its communicator */
};

/* Places of arguments; -1: none. Of a function that MEETS, `pointer` is its communicator, `size` counts what `target`
 * is the type of, `source` is the root, or the rank that it sends to or receives from, `rows` the tag, and at
 * `properties` it writes the handle of a communicator that it makes.
 */
struct role {
    uint8_t flags, unit;
    int8_t size, rows, pointer, target, source, stream, sizes, pieces, properties, device;
};

static const struct role ROLES[] = {
    {SINGLE, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuInit */
    {SINGLE, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuCtxCreate */
    {SINGLE, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1}, /* cuDevicePrimaryCtxRetain */
    {SINGLE, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0}, /* cuDevicePrimaryCtxRelease */
    {SINGLE, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0}, /* cuDevicePrimaryCtxReset */
    {GRANTS | TOUCHES | SINGLE, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemHostAlloc */
    {GRANTS | TOUCHES | SINGLE, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemAllocHost */
    {TOUCHES | SINGLE, 1, 1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* cuMemHostRegister */
    {SINGLE, 1, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* cuMemFreeHost */
    {SINGLE, 1, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* cuMemHostUnregister */
    {GRANTS | SINGLE, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemAlloc */
    {GRANTS, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemAllocAsync */
    {GRANTS, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemAllocFromPoolAsync */
    {GRANTS | TOUCHES | SINGLE, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemAllocManaged */
    {GRANTS | SINGLE, 1, 2, 3, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemAllocPitch */
    {SINGLE, 1, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* cuMemFree */
    {0, 1, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* cuMemFreeAsync */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuArrayCreate */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuArray3DCreate */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMipmappedArrayCreate */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuArrayDestroy */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMipmappedArrayDestroy */
    {GRANTS | SINGLE, 1, 1, -1, -1, -1, -1, -1, -1, -1, 2, -1}, /* cuMemCreate */
    {SINGLE, 1, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* cuMemRelease */
    {0, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemAddressReserve */
    {0, 1, 1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* cuMemMap */
    {0, 1, 1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* cuMemUnmap */
    {0, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemAddressFree */
    {0, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemSetAccess */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, 1, -1}, /* cuMemPoolCreate */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemPoolDestroy */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemPoolTrimTo */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemPoolImportPointer */
    {COPIES, 1, 2, -1, -1, 0, 1, -1, -1, -1, -1, -1}, /* cuMemcpy */
    {COPIES, 1, 2, -1, -1, 0, 1, 3, -1, -1, -1, -1}, /* cuMemcpyAsync */
    {COPIES, 1, 2, -1, -1, 0, 1, -1, -1, -1, -1, -1}, /* cuMemcpyHtoD */
    {COPIES, 1, 2, -1, -1, 0, 1, 3, -1, -1, -1, -1}, /* cuMemcpyHtoDAsync */
    {COPIES, 1, 2, -1, -1, 0, 1, -1, -1, -1, -1, -1}, /* cuMemcpyDtoH */
    {COPIES, 1, 2, -1, -1, 0, 1, 3, -1, -1, -1, -1}, /* cuMemcpyDtoHAsync */
    {COPIES, 1, 2, -1, -1, 0, 1, -1, -1, -1, -1, -1}, /* cuMemcpyDtoD */
    {COPIES, 1, 2, -1, -1, 0, 1, 3, -1, -1, -1, -1}, /* cuMemcpyDtoDAsync */
    {COPIES, 1, 3, -1, -1, -1, 2, -1, -1, -1, -1, -1}, /* cuMemcpyHtoA */
    {COPIES, 1, 3, -1, -1, -1, 2, -1, -1, -1, -1, -1}, /* cuMemcpyHtoAAsync */
    {COPIES, 1, 3, -1, -1, 0, -1, -1, -1, -1, -1, -1}, /* cuMemcpyAtoH */
    {COPIES, 1, 3, -1, -1, 0, -1, -1, -1, -1, -1, -1}, /* cuMemcpyAtoHAsync */
    {COPIES, 1, 3, -1, -1, 0, -1, -1, -1, -1, -1, -1}, /* cuMemcpyAtoD */
    {COPIES, 1, 3, -1, -1, -1, 2, -1, -1, -1, -1, -1}, /* cuMemcpyDtoA */
    {COPIES, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemcpyAtoA */
    {COPIES, 1, 2, -1, -1, 0, 1, -1, -1, -1, -1, -1}, /* cuMemcpyWithAttributesAsync */
    {COPIES, 1, -1, -1, -1, 0, 2, -1, -1, -1, -1, -1}, /* cuMemcpyPeer */
    {COPIES, 1, -1, -1, -1, 0, 2, -1, -1, -1, -1, -1}, /* cuMemcpyPeerAsync */
    {COPIES, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemcpy3D */
    {COPIES, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemcpy3DAsync */
    {COPIES, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemcpy3DPeer */
    {COPIES, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemcpy3DPeerAsync */
    {COPIES, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemcpy3DWithAttributesAsync */
    {COPIES, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemcpy2D */
    {COPIES, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemcpy2DAsync */
    {COPIES, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemcpy2DUnaligned */
    {COPIES, 1, -1, -1, -1, -1, -1, -1, 2, 3, -1, -1}, /* cuMemcpyBatchAsync */
    {COPIES, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemcpy3DBatchAsync */
    {0, 1, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemsetD8 */
    {0, 1, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemsetD8Async */
    {0, 2, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemsetD16 */
    {0, 2, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemsetD16Async */
    {0, 4, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemsetD32 */
    {0, 4, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemsetD32Async */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemsetD2D8 */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemsetD2D8Async */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemsetD2D16 */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemsetD2D16Async */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemsetD2D32 */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemsetD2D32Async */
    {0, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemPrefetchAsync */
    {0, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemAdvise */
    {0, 1, -1, -1, -1, -1, -1, -1, 1, 2, -1, -1}, /* cuMemDiscardBatchAsync */
    {0, 1, -1, -1, -1, -1, -1, -1, 1, 2, -1, -1}, /* cuMemPrefetchBatchAsync */
    {0, 1, -1, -1, -1, -1, -1, -1, 1, 2, -1, -1}, /* cuMemDiscardAndPrefetchBatchAsync */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuCtxSynchronize */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuStreamSynchronize */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuEventSynchronize */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuLaunch */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuLaunchGrid */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuLaunchGridAsync */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuLaunchKernelEx */
    {0, 1, -1, -1, -1, -1, -1, 8, -1, -1, -1, -1}, /* cuLaunchKernel */
    {0, 1, -1, -1, -1, -1, -1, 8, -1, -1, -1, -1}, /* cuLaunchCooperativeKernel */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuLaunchCooperativeKernelMultiDevice */
    {0, 1, -1, -1, -1, -1, -1, 0, -1, -1, -1, -1}, /* cuLaunchHostFunc */
    {0, 1, -1, -1, -1, -1, -1, 1, -1, -1, -1, -1}, /* cuGraphLaunch */
    {0, 1, -1, -1, -1, -1, -1, 1, -1, -1, -1, -1}, /* cuEventRecord */
    {0, 1, -1, -1, -1, -1, -1, 1, -1, -1, -1, -1}, /* cuEventRecordWithFlags */
    {0, 1, -1, -1, -1, -1, -1, 0, -1, -1, -1, -1}, /* cuStreamWaitEvent */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuEventQuery */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuStreamQuery */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuEventCreate */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuEventCreateWithFlags */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuEventDestroy */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuEventElapsedTime */
    {0, 1, -1, -1, -1, -1, -1, 0, -1, -1, -1, -1}, /* cuStreamBeginCapture */
    {0, 1, -1, -1, -1, -1, -1, 0, -1, -1, -1, -1}, /* cuStreamBeginCaptureToGraph */
    {0, 1, -1, -1, -1, -1, -1, 0, -1, -1, -1, -1}, /* cuStreamEndCapture */
    {0, 1, -1, -1, -1, -1, -1, 1, -1, -1, -1, -1}, /* cuGraphUpload */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuGraphCreate */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuGraphInstantiate */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuGraphInstantiateWithFlags */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuGraphInstantiateWithParams */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuGraphExecUpdate */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuGraphExecDestroy */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuGraphDestroy */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuModuleLoad */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuModuleLoadData */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuModuleLoadDataEx */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuLibraryLoadData */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuLibraryLoadFromFile */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuStreamCreate */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuStreamCreateWithPriority */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuStreamDestroy */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuCtxDestroy */
    {0, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* cuMemHostGetFlags */
    {MEETS | NUMBERED, 1, 2, -1, 5, 3, -1, 6, -1, -1, -1, -1}, /* ncclAllReduce */
    {MEETS | NUMBERED, 1, 2, -1, 5, 3, -1, 6, -1, -1, -1, -1}, /* ncclReduceScatter */
    {MEETS | NUMBERED, 1, 2, -1, 5, 3, -1, 6, -1, -1, -1, -1}, /* ncclBroadcast */
    {MEETS | NUMBERED, 1, 1, -1, 4, 2, -1, 5, -1, -1, -1, -1}, /* ncclBcast */
    {MEETS | NUMBERED, 1, 2, -1, 6, 3, -1, 7, -1, -1, -1, -1}, /* ncclReduce */
    {MEETS | NUMBERED, 1, 2, -1, 4, 3, -1, 5, -1, -1, -1, -1}, /* ncclAllGather */
    {MEETS, 1, 1, -1, 4, 2, 3, 5, -1, -1, -1, -1}, /* ncclSend */
    {MEETS, 1, 1, -1, 4, 2, 3, 5, -1, -1, -1, -1}, /* ncclRecv */
    {MEETS, 1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* ncclGroupEnd */
    {MEETS | NUMBERED, 1, -1, -1, 0, -1, -1, -1, -1, -1, 3, -1}, /* ncclCommSplit */
    {MEETS | ENDS, 1, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* ncclCommDestroy */
    {MEETS | ENDS, 1, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* ncclCommAbort */
    {MEETS | NUMBERED, 2, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* MPI_Barrier */
    {MEETS | NUMBERED, 2, 2, -1, 5, 3, -1, -1, -1, -1, -1, -1}, /* MPI_Allreduce */
    {MEETS | NUMBERED, 2, 1, -1, 6, 2, -1, -1, -1, -1, -1, -1}, /* MPI_Allgather */
    {MEETS | NUMBERED, 2, 1, -1, 7, 2, -1, -1, -1, -1, -1, -1}, /* MPI_Allgatherv */
    {MEETS | NUMBERED, 2, 1, -1, 6, 2, -1, -1, -1, -1, -1, -1}, /* MPI_Alltoall */
    {MEETS | NUMBERED, 2, -1, -1, 8, -1, -1, -1, -1, -1, -1, -1}, /* MPI_Alltoallv */
    {MEETS | NUMBERED, 2, -1, -1, 8, -1, -1, -1, -1, -1, -1, -1}, /* MPI_Alltoallw */
    {MEETS | NUMBERED, 2, -1, -1, 5, -1, -1, -1, -1, -1, -1, -1}, /* MPI_Reduce_scatter */
    {MEETS | NUMBERED, 2, 2, -1, 5, 3, -1, -1, -1, -1, -1, -1}, /* MPI_Reduce_scatter_block */
    {MEETS | NUMBERED, 2, 1, -1, 4, 2, 3, -1, -1, -1, -1, -1}, /* MPI_Bcast */
    {MEETS | NUMBERED, 2, 2, -1, 6, 3, 5, -1, -1, -1, -1, -1}, /* MPI_Reduce */
    {MEETS | NUMBERED, 2, 1, -1, 7, 2, 6, -1, -1, -1, -1, -1}, /* MPI_Gather */
    {MEETS | NUMBERED, 2, 1, -1, 8, 2, 7, -1, -1, -1, -1, -1}, /* MPI_Gatherv */
    {MEETS | NUMBERED, 2, 4, -1, 7, 5, 6, -1, -1, -1, -1, -1}, /* MPI_Scatter */
    {MEETS | NUMBERED, 2, 5, -1, 8, 6, 7, -1, -1, -1, -1, -1}, /* MPI_Scatterv */
    {MEETS | NUMBERED, 2, 2, -1, 5, 3, -1, -1, -1, -1, -1, -1}, /* MPI_Scan */
    {MEETS | NUMBERED, 2, 2, -1, 5, 3, -1, -1, -1, -1, -1, -1}, /* MPI_Exscan */
    {MEETS, 2, 1, 4, 5, 2, 3, -1, -1, -1, -1, -1}, /* MPI_Send */
    {MEETS, 2, 1, 4, 5, 2, 3, -1, -1, -1, -1, -1}, /* MPI_Ssend */
    {MEETS, 2, 1, 4, 5, 2, 3, -1, -1, -1, -1, -1}, /* MPI_Rsend */
    {MEETS, 2, 1, 4, 5, 2, 3, -1, -1, -1, -1, -1}, /* MPI_Recv */
    {MEETS, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* MPI_Sendrecv */
    {MEETS, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* MPI_Sendrecv_replace */
    {MEETS, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* MPI_Probe */
    {MEETS, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* MPI_Mprobe */
    {MEETS, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* MPI_Mrecv */
    {MEETS, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* MPI_Wait */
    {MEETS, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* MPI_Waitall */
    {MEETS, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* MPI_Waitany */
    {MEETS, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* MPI_Waitsome */
    {MEETS, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* MPI_Init */
    {MEETS, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* MPI_Init_thread */
    {MEETS, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* MPI_Finalize */
    {MEETS, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}, /* MPI_Win_fence */
    {MEETS | NUMBERED, 2, -1, -1, 0, -1, -1, -1, -1, -1, 1, -1}, /* MPI_Comm_dup */
    {MEETS | NUMBERED, 2, -1, -1, 0, -1, -1, -1, -1, -1, 1, -1}, /* MPI_Comm_idup */
    {MEETS | NUMBERED, 2, -1, -1, 0, -1, -1, -1, -1, -1, 2, -1}, /* MPI_Comm_create */
    {MEETS | NUMBERED, 2, -1, -1, 0, -1, -1, -1, -1, -1, 2, -1}, /* MPI_Comm_dup_with_info */
    {MEETS | NUMBERED, 2, -1, -1, 0, -1, -1, -1, -1, -1, 2, -1}, /* MPI_Cart_sub */
    {MEETS | NUMBERED, 2, -1, -1, 0, -1, -1, -1, -1, -1, 3, -1}, /* MPI_Comm_split */
    {MEETS | NUMBERED, 2, -1, -1, 0, -1, -1, -1, -1, -1, 4, -1}, /* MPI_Comm_split_type */
    {MEETS | NUMBERED, 2, -1, -1, 0, -1, -1, -1, -1, -1, 5, -1}, /* MPI_Cart_create */
    {MEETS | NUMBERED, 2, -1, -1, 0, -1, -1, -1, -1, -1, 5, -1}, /* MPI_Graph_create */
    {MEETS, 2, -1, -1, -1, -1, -1, -1, -1, -1, 3, -1}, /* MPI_Comm_create_group */
    {MEETS, 2, -1, -1, -1, -1, -1, -1, -1, -1, 2, -1}, /* MPI_Intercomm_merge */
    {MEETS, 2, -1, -1, -1, -1, -1, -1, -1, -1, 5, -1}, /* MPI_Intercomm_create */
    {MEETS | NUMBERED, 2, -1, -1, 0, -1, -1, -1, -1, -1, 8, -1}, /* MPI_Dist_graph_create */
    {MEETS | NUMBERED, 2, -1, -1, 0, -1, -1, -1, -1, -1, 9, -1}, /* MPI_Dist_graph_create_adjacent */
    {MEETS | NUMBERED, 3, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* _ZN4gloo7barrierERNS_14BarrierOptionsE */
    {MEETS | NUMBERED, 3, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* _ZN4gloo9allreduceERKNS_16AllreduceOptionsE */
    {MEETS | NUMBERED, 3, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* _ZN4gloo9allgatherERNS_16AllgatherOptionsE */
    {MEETS | NUMBERED, 3, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* _ZN4gloo10allgathervERNS_17AllgathervOptionsE */
    {MEETS | NUMBERED, 3, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* _ZN4gloo8alltoallERNS_15AlltoallOptionsE */
    {MEETS | NUMBERED, 3, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* _ZN4gloo9alltoallvERNS_16AlltoallvOptionsE */
    {MEETS | NUMBERED, 3, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* _ZN4gloo9broadcastERNS_16BroadcastOptionsE */
    {MEETS | NUMBERED, 3, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* _ZN4gloo6reduceERNS_13ReduceOptionsE */
    {MEETS | NUMBERED, 3, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* _ZN4gloo6gatherERNS_13GatherOptionsE */
    {MEETS | NUMBERED, 3, -1, -1, 0, -1, -1, -1, -1, -1, -1, -1}, /* _ZN4gloo7scatterERNS_14ScatterOptionsE */
};

static const char NAMES[] =
    "cuInit\n"
    "cuCtxCreate\n"
    "cuDevicePrimaryCtxRetain\n"
    "cuDevicePrimaryCtxRelease\n"
    "cuDevicePrimaryCtxReset\n"
    "cuMemHostAlloc\n"
    "cuMemAllocHost\n"
    "cuMemHostRegister\n"
    "cuMemFreeHost\n"
    "cuMemHostUnregister\n"
    "cuMemAlloc\n"
    "cuMemAllocAsync\n"
    "cuMemAllocFromPoolAsync\n"
    "cuMemAllocManaged\n"
    "cuMemAllocPitch\n"
    "cuMemFree\n"
    "cuMemFreeAsync\n"
    "cuArrayCreate\n"
    "cuArray3DCreate\n"
    "cuMipmappedArrayCreate\n"
    "cuArrayDestroy\n"
    "cuMipmappedArrayDestroy\n"
    "cuMemCreate\n"
    "cuMemRelease\n"
    "cuMemAddressReserve\n"
    "cuMemMap\n"
    "cuMemUnmap\n"
    "cuMemAddressFree\n"
    "cuMemSetAccess\n"
    "cuMemPoolCreate\n"
    "cuMemPoolDestroy\n"
    "cuMemPoolTrimTo\n"
    "cuMemPoolImportPointer\n"
    "cuMemcpy\n"
    "cuMemcpyAsync\n"
    "cuMemcpyHtoD\n"
    "cuMemcpyHtoDAsync\n"
    "cuMemcpyDtoH\n"
    "cuMemcpyDtoHAsync\n"
    "cuMemcpyDtoD\n"
    "cuMemcpyDtoDAsync\n"
    "cuMemcpyHtoA\n"
    "cuMemcpyHtoAAsync\n"
    "cuMemcpyAtoH\n"
    "cuMemcpyAtoHAsync\n"
    "cuMemcpyAtoD\n"
    "cuMemcpyDtoA\n"
    "cuMemcpyAtoA\n"
    "cuMemcpyWithAttributesAsync\n"
    "cuMemcpyPeer\n"
    "cuMemcpyPeerAsync\n"
    "cuMemcpy3D\n"
    "cuMemcpy3DAsync\n"
    "cuMemcpy3DPeer\n"
    "cuMemcpy3DPeerAsync\n"
    "cuMemcpy3DWithAttributesAsync\n"
    "cuMemcpy2D\n"
    "cuMemcpy2DAsync\n"
    "cuMemcpy2DUnaligned\n"
    "cuMemcpyBatchAsync\n"
    "cuMemcpy3DBatchAsync\n"
    "cuMemsetD8\n"
    "cuMemsetD8Async\n"
    "cuMemsetD16\n"
    "cuMemsetD16Async\n"
    "cuMemsetD32\n"
    "cuMemsetD32Async\n"
    "cuMemsetD2D8\n"
    "cuMemsetD2D8Async\n"
    "cuMemsetD2D16\n"
    "cuMemsetD2D16Async\n"
    "cuMemsetD2D32\n"
    "cuMemsetD2D32Async\n"
    "cuMemPrefetchAsync\n"
    "cuMemAdvise\n"
    "cuMemDiscardBatchAsync\n"
    "cuMemPrefetchBatchAsync\n"
    "cuMemDiscardAndPrefetchBatchAsync\n"
    "cuCtxSynchronize\n"
    "cuStreamSynchronize\n"
    "cuEventSynchronize\n"
    "cuLaunch\n"
    "cuLaunchGrid\n"
    "cuLaunchGridAsync\n"
    "cuLaunchKernelEx\n"
    "cuLaunchKernel\n"
    "cuLaunchCooperativeKernel\n"
    "cuLaunchCooperativeKernelMultiDevice\n"
    "cuLaunchHostFunc\n"
    "cuGraphLaunch\n"
    "cuEventRecord\n"
    "cuEventRecordWithFlags\n"
    "cuStreamWaitEvent\n"
    "cuEventQuery\n"
    "cuStreamQuery\n"
    "cuEventCreate\n"
    "cuEventCreateWithFlags\n"
    "cuEventDestroy\n"
    "cuEventElapsedTime\n"
    "cuStreamBeginCapture\n"
    "cuStreamBeginCaptureToGraph\n"
    "cuStreamEndCapture\n"
    "cuGraphUpload\n"
    "cuGraphCreate\n"
    "cuGraphInstantiate\n"
    "cuGraphInstantiateWithFlags\n"
    "cuGraphInstantiateWithParams\n"
    "cuGraphExecUpdate\n"
    "cuGraphExecDestroy\n"
    "cuGraphDestroy\n"
    "cuModuleLoad\n"
    "cuModuleLoadData\n"
    "cuModuleLoadDataEx\n"
    "cuLibraryLoadData\n"
    "cuLibraryLoadFromFile\n"
    "cuStreamCreate\n"
    "cuStreamCreateWithPriority\n"
    "cuStreamDestroy\n"
    "cuCtxDestroy\n"
    "cuMemHostGetFlags\n"
    "ncclAllReduce\n"
    "ncclReduceScatter\n"
    "ncclBroadcast\n"
    "ncclBcast\n"
    "ncclReduce\n"
    "ncclAllGather\n"
    "ncclSend\n"
    "ncclRecv\n"
    "ncclGroupEnd\n"
    "ncclCommSplit\n"
    "ncclCommDestroy\n"
    "ncclCommAbort\n"
    "MPI_Barrier\n"
    "MPI_Allreduce\n"
    "MPI_Allgather\n"
    "MPI_Allgatherv\n"
    "MPI_Alltoall\n"
    "MPI_Alltoallv\n"
    "MPI_Alltoallw\n"
    "MPI_Reduce_scatter\n"
    "MPI_Reduce_scatter_block\n"
    "MPI_Bcast\n"
    "MPI_Reduce\n"
    "MPI_Gather\n"
    "MPI_Gatherv\n"
    "MPI_Scatter\n"
    "MPI_Scatterv\n"
    "MPI_Scan\n"
    "MPI_Exscan\n"
    "MPI_Send\n"
    "MPI_Ssend\n"
    "MPI_Rsend\n"
    "MPI_Recv\n"
    "MPI_Sendrecv\n"
    "MPI_Sendrecv_replace\n"
    "MPI_Probe\n"
    "MPI_Mprobe\n"
    "MPI_Mrecv\n"
    "MPI_Wait\n"
    "MPI_Waitall\n"
    "MPI_Waitany\n"
    "MPI_Waitsome\n"
    "MPI_Init\n"
    "MPI_Init_thread\n"
    "MPI_Finalize\n"
    "MPI_Win_fence\n"
    "MPI_Comm_dup\n"
    "MPI_Comm_idup\n"
    "MPI_Comm_create\n"
    "MPI_Comm_dup_with_info\n"
    "MPI_Cart_sub\n"
    "MPI_Comm_split\n"
    "MPI_Comm_split_type\n"
    "MPI_Cart_create\n"
    "MPI_Graph_create\n"
    "MPI_Comm_create_group\n"
    "MPI_Intercomm_merge\n"
    "MPI_Intercomm_create\n"
    "MPI_Dist_graph_create\n"
    "MPI_Dist_graph_create_adjacent\n"
    "_ZN4gloo7barrierERNS_14BarrierOptionsE\n"
    "_ZN4gloo9allreduceERKNS_16AllreduceOptionsE\n"
    "_ZN4gloo9allgatherERNS_16AllgatherOptionsE\n"
    "_ZN4gloo10allgathervERNS_17AllgathervOptionsE\n"
    "_ZN4gloo8alltoallERNS_15AlltoallOptionsE\n"
    "_ZN4gloo9alltoallvERNS_16AlltoallvOptionsE\n"
    "_ZN4gloo9broadcastERNS_16BroadcastOptionsE\n"
    "_ZN4gloo6reduceERNS_13ReduceOptionsE\n"
    "_ZN4gloo6gatherERNS_13GatherOptionsE\n"
    "_ZN4gloo7scatterERNS_14ScatterOptionsE\n";

#define ALL_EXPORTS(X) \
    X(0, cuInit) \
    X(1, cuInit_v2) \
    X(2, cuCtxCreate) \
    X(3, cuCtxCreate_v2) \
    X(4, cuCtxCreate_v3) \
    X(5, cuCtxCreate_v4) \
    X(6, cuDevicePrimaryCtxRetain) \
    X(7, cuDevicePrimaryCtxRetain_v2) \
    X(8, cuDevicePrimaryCtxRelease) \
    X(9, cuDevicePrimaryCtxRelease_v2) \
    X(10, cuDevicePrimaryCtxReset) \
    X(11, cuDevicePrimaryCtxReset_v2) \
    X(12, cuMemHostAlloc) \
    X(13, cuMemHostAlloc_v2) \
    X(14, cuMemAllocHost) \
    X(15, cuMemAllocHost_v2) \
    X(16, cuMemHostRegister) \
    X(17, cuMemHostRegister_v2) \
    X(18, cuMemFreeHost) \
    X(19, cuMemFreeHost_v2) \
    X(20, cuMemHostUnregister) \
    X(21, cuMemHostUnregister_v2) \
    X(22, cuMemAlloc) \
    X(23, cuMemAlloc_v2) \
    X(24, cuMemAllocAsync) \
    X(25, cuMemAllocAsync_ptsz) \
    X(26, cuMemAllocAsync_v2) \
    X(27, cuMemAllocAsync_v2_ptsz) \
    X(28, cuMemAllocFromPoolAsync) \
    X(29, cuMemAllocFromPoolAsync_ptsz) \
    X(30, cuMemAllocFromPoolAsync_v2) \
    X(31, cuMemAllocFromPoolAsync_v2_ptsz) \
    X(32, cuMemAllocManaged) \
    X(33, cuMemAllocManaged_v2) \
    X(34, cuMemAllocPitch) \
    X(35, cuMemAllocPitch_v2) \
    X(36, cuMemFree) \
    X(37, cuMemFree_v2) \
    X(38, cuMemFreeAsync) \
    X(39, cuMemFreeAsync_ptsz) \
    X(40, cuMemFreeAsync_v2) \
    X(41, cuMemFreeAsync_v2_ptsz) \
    X(42, cuArrayCreate) \
    X(43, cuArrayCreate_v2) \
    X(44, cuArray3DCreate) \
    X(45, cuArray3DCreate_v2) \
    X(46, cuMipmappedArrayCreate) \
    X(47, cuMipmappedArrayCreate_v2) \
    X(48, cuArrayDestroy) \
    X(49, cuArrayDestroy_v2) \
    X(50, cuMipmappedArrayDestroy) \
    X(51, cuMipmappedArrayDestroy_v2) \
    X(52, cuMemCreate) \
    X(53, cuMemCreate_v2) \
    X(54, cuMemRelease) \
    X(55, cuMemRelease_v2) \
    X(56, cuMemAddressReserve) \
    X(57, cuMemAddressReserve_v2) \
    X(58, cuMemMap) \
    X(59, cuMemMap_v2) \
    X(60, cuMemUnmap) \
    X(61, cuMemUnmap_v2) \
    X(62, cuMemAddressFree) \
    X(63, cuMemAddressFree_v2) \
    X(64, cuMemSetAccess) \
    X(65, cuMemSetAccess_v2) \
    X(66, cuMemPoolCreate) \
    X(67, cuMemPoolCreate_v2) \
    X(68, cuMemPoolDestroy) \
    X(69, cuMemPoolDestroy_v2) \
    X(70, cuMemPoolTrimTo) \
    X(71, cuMemPoolTrimTo_v2) \
    X(72, cuMemPoolImportPointer) \
    X(73, cuMemPoolImportPointer_v2) \
    X(74, cuMemcpy) \
    X(75, cuMemcpy_ptds) \
    X(76, cuMemcpy_v2) \
    X(77, cuMemcpy_v2_ptds) \
    X(78, cuMemcpyAsync) \
    X(79, cuMemcpyAsync_ptsz) \
    X(80, cuMemcpyAsync_v2) \
    X(81, cuMemcpyAsync_v2_ptsz) \
    X(82, cuMemcpyHtoD) \
    X(83, cuMemcpyHtoD_ptds) \
    X(84, cuMemcpyHtoD_v2) \
    X(85, cuMemcpyHtoD_v2_ptds) \
    X(86, cuMemcpyHtoDAsync) \
    X(87, cuMemcpyHtoDAsync_ptsz) \
    X(88, cuMemcpyHtoDAsync_v2) \
    X(89, cuMemcpyHtoDAsync_v2_ptsz) \
    X(90, cuMemcpyDtoH) \
    X(91, cuMemcpyDtoH_ptds) \
    X(92, cuMemcpyDtoH_v2) \
    X(93, cuMemcpyDtoH_v2_ptds) \
    X(94, cuMemcpyDtoHAsync) \
    X(95, cuMemcpyDtoHAsync_ptsz) \
    X(96, cuMemcpyDtoHAsync_v2) \
    X(97, cuMemcpyDtoHAsync_v2_ptsz) \
    X(98, cuMemcpyDtoD) \
    X(99, cuMemcpyDtoD_ptds) \
    X(100, cuMemcpyDtoD_v2) \
    X(101, cuMemcpyDtoD_v2_ptds) \
    X(102, cuMemcpyDtoDAsync) \
    X(103, cuMemcpyDtoDAsync_ptsz) \
    X(104, cuMemcpyDtoDAsync_v2) \
    X(105, cuMemcpyDtoDAsync_v2_ptsz) \
    X(106, cuMemcpyHtoA) \
    X(107, cuMemcpyHtoA_ptds) \
    X(108, cuMemcpyHtoA_v2) \
    X(109, cuMemcpyHtoA_v2_ptds) \
    X(110, cuMemcpyHtoAAsync) \
    X(111, cuMemcpyHtoAAsync_ptsz) \
    X(112, cuMemcpyHtoAAsync_v2) \
    X(113, cuMemcpyHtoAAsync_v2_ptsz) \
    X(114, cuMemcpyAtoH) \
    X(115, cuMemcpyAtoH_ptds) \
    X(116, cuMemcpyAtoH_v2) \
    X(117, cuMemcpyAtoH_v2_ptds) \
    X(118, cuMemcpyAtoHAsync) \
    X(119, cuMemcpyAtoHAsync_ptsz) \
    X(120, cuMemcpyAtoHAsync_v2) \
    X(121, cuMemcpyAtoHAsync_v2_ptsz) \
    X(122, cuMemcpyAtoD) \
    X(123, cuMemcpyAtoD_ptds) \
    X(124, cuMemcpyAtoD_v2) \
    X(125, cuMemcpyAtoD_v2_ptds) \
    X(126, cuMemcpyDtoA) \
    X(127, cuMemcpyDtoA_ptds) \
    X(128, cuMemcpyDtoA_v2) \
    X(129, cuMemcpyDtoA_v2_ptds) \
    X(130, cuMemcpyAtoA) \
    X(131, cuMemcpyAtoA_ptds) \
    X(132, cuMemcpyAtoA_v2) \
    X(133, cuMemcpyAtoA_v2_ptds) \
    X(134, cuMemcpyWithAttributesAsync) \
    X(135, cuMemcpyWithAttributesAsync_ptsz) \
    X(136, cuMemcpyWithAttributesAsync_v2) \
    X(137, cuMemcpyWithAttributesAsync_v2_ptsz) \
    X(138, cuMemcpyPeer) \
    X(139, cuMemcpyPeer_ptds) \
    X(140, cuMemcpyPeer_v2) \
    X(141, cuMemcpyPeer_v2_ptds) \
    X(142, cuMemcpyPeerAsync) \
    X(143, cuMemcpyPeerAsync_ptsz) \
    X(144, cuMemcpyPeerAsync_v2) \
    X(145, cuMemcpyPeerAsync_v2_ptsz) \
    X(146, cuMemcpy3D) \
    X(147, cuMemcpy3D_ptds) \
    X(148, cuMemcpy3D_v2) \
    X(149, cuMemcpy3D_v2_ptds) \
    X(150, cuMemcpy3DAsync) \
    X(151, cuMemcpy3DAsync_ptsz) \
    X(152, cuMemcpy3DAsync_v2) \
    X(153, cuMemcpy3DAsync_v2_ptsz) \
    X(154, cuMemcpy3DPeer) \
    X(155, cuMemcpy3DPeer_ptds) \
    X(156, cuMemcpy3DPeer_v2) \
    X(157, cuMemcpy3DPeer_v2_ptds) \
    X(158, cuMemcpy3DPeerAsync) \
    X(159, cuMemcpy3DPeerAsync_ptsz) \
    X(160, cuMemcpy3DPeerAsync_v2) \
    X(161, cuMemcpy3DPeerAsync_v2_ptsz) \
    X(162, cuMemcpy3DWithAttributesAsync) \
    X(163, cuMemcpy3DWithAttributesAsync_ptsz) \
    X(164, cuMemcpy3DWithAttributesAsync_v2) \
    X(165, cuMemcpy3DWithAttributesAsync_v2_ptsz) \
    X(166, cuMemcpy2D) \
    X(167, cuMemcpy2D_ptds) \
    X(168, cuMemcpy2D_v2) \
    X(169, cuMemcpy2D_v2_ptds) \
    X(170, cuMemcpy2DAsync) \
    X(171, cuMemcpy2DAsync_ptsz) \
    X(172, cuMemcpy2DAsync_v2) \
    X(173, cuMemcpy2DAsync_v2_ptsz) \
    X(174, cuMemcpy2DUnaligned) \
    X(175, cuMemcpy2DUnaligned_ptds) \
    X(176, cuMemcpy2DUnaligned_v2) \
    X(177, cuMemcpy2DUnaligned_v2_ptds) \
    X(178, cuMemcpyBatchAsync) \
    X(179, cuMemcpyBatchAsync_ptsz) \
    X(180, cuMemcpyBatchAsync_v2) \
    X(181, cuMemcpyBatchAsync_v2_ptsz) \
    X(182, cuMemcpy3DBatchAsync) \
    X(183, cuMemcpy3DBatchAsync_ptsz) \
    X(184, cuMemcpy3DBatchAsync_v2) \
    X(185, cuMemcpy3DBatchAsync_v2_ptsz) \
    X(186, cuMemsetD8) \
    X(187, cuMemsetD8_ptds) \
    X(188, cuMemsetD8_v2) \
    X(189, cuMemsetD8_v2_ptds) \
    X(190, cuMemsetD8Async) \
    X(191, cuMemsetD8Async_ptsz) \
    X(192, cuMemsetD8Async_v2) \
    X(193, cuMemsetD8Async_v2_ptsz) \
    X(194, cuMemsetD16) \
    X(195, cuMemsetD16_ptds) \
    X(196, cuMemsetD16_v2) \
    X(197, cuMemsetD16_v2_ptds) \
    X(198, cuMemsetD16Async) \
    X(199, cuMemsetD16Async_ptsz) \
    X(200, cuMemsetD16Async_v2) \
    X(201, cuMemsetD16Async_v2_ptsz) \
    X(202, cuMemsetD32) \
    X(203, cuMemsetD32_ptds) \
    X(204, cuMemsetD32_v2) \
    X(205, cuMemsetD32_v2_ptds) \
    X(206, cuMemsetD32Async) \
    X(207, cuMemsetD32Async_ptsz) \
    X(208, cuMemsetD32Async_v2) \
    X(209, cuMemsetD32Async_v2_ptsz) \
    X(210, cuMemsetD2D8) \
    X(211, cuMemsetD2D8_ptds) \
    X(212, cuMemsetD2D8_v2) \
    X(213, cuMemsetD2D8_v2_ptds) \
    X(214, cuMemsetD2D8Async) \
    X(215, cuMemsetD2D8Async_ptsz) \
    X(216, cuMemsetD2D8Async_v2) \
    X(217, cuMemsetD2D8Async_v2_ptsz) \
    X(218, cuMemsetD2D16) \
    X(219, cuMemsetD2D16_ptds) \
    X(220, cuMemsetD2D16_v2) \
    X(221, cuMemsetD2D16_v2_ptds) \
    X(222, cuMemsetD2D16Async) \
    X(223, cuMemsetD2D16Async_ptsz) \
    X(224, cuMemsetD2D16Async_v2) \
    X(225, cuMemsetD2D16Async_v2_ptsz) \
    X(226, cuMemsetD2D32) \
    X(227, cuMemsetD2D32_ptds) \
    X(228, cuMemsetD2D32_v2) \
    X(229, cuMemsetD2D32_v2_ptds) \
    X(230, cuMemsetD2D32Async) \
    X(231, cuMemsetD2D32Async_ptsz) \
    X(232, cuMemsetD2D32Async_v2) \
    X(233, cuMemsetD2D32Async_v2_ptsz) \
    X(234, cuMemPrefetchAsync) \
    X(235, cuMemPrefetchAsync_ptsz) \
    X(236, cuMemPrefetchAsync_v2) \
    X(237, cuMemPrefetchAsync_v2_ptsz) \
    X(238, cuMemAdvise) \
    X(239, cuMemAdvise_v2) \
    X(240, cuMemDiscardBatchAsync) \
    X(241, cuMemDiscardBatchAsync_ptsz) \
    X(242, cuMemDiscardBatchAsync_v2) \
    X(243, cuMemDiscardBatchAsync_v2_ptsz) \
    X(244, cuMemPrefetchBatchAsync) \
    X(245, cuMemPrefetchBatchAsync_ptsz) \
    X(246, cuMemPrefetchBatchAsync_v2) \
    X(247, cuMemPrefetchBatchAsync_v2_ptsz) \
    X(248, cuMemDiscardAndPrefetchBatchAsync) \
    X(249, cuMemDiscardAndPrefetchBatchAsync_ptsz) \
    X(250, cuMemDiscardAndPrefetchBatchAsync_v2) \
    X(251, cuMemDiscardAndPrefetchBatchAsync_v2_ptsz) \
    X(252, cuCtxSynchronize) \
    X(253, cuCtxSynchronize_v2) \
    X(254, cuStreamSynchronize) \
    X(255, cuStreamSynchronize_ptsz) \
    X(256, cuStreamSynchronize_v2) \
    X(257, cuStreamSynchronize_v2_ptsz) \
    X(258, cuEventSynchronize) \
    X(259, cuEventSynchronize_ptsz) \
    X(260, cuEventSynchronize_v2) \
    X(261, cuEventSynchronize_v2_ptsz) \
    X(262, cuLaunch) \
    X(263, cuLaunch_ptsz) \
    X(264, cuLaunch_v2) \
    X(265, cuLaunch_v2_ptsz) \
    X(266, cuLaunchGrid) \
    X(267, cuLaunchGrid_ptsz) \
    X(268, cuLaunchGrid_v2) \
    X(269, cuLaunchGrid_v2_ptsz) \
    X(270, cuLaunchGridAsync) \
    X(271, cuLaunchGridAsync_ptsz) \
    X(272, cuLaunchGridAsync_v2) \
    X(273, cuLaunchGridAsync_v2_ptsz) \
    X(274, cuLaunchKernelEx) \
    X(275, cuLaunchKernelEx_ptsz) \
    X(276, cuLaunchKernelEx_v2) \
    X(277, cuLaunchKernelEx_v2_ptsz) \
    X(278, cuLaunchKernel) \
    X(279, cuLaunchKernel_ptsz) \
    X(280, cuLaunchKernel_v2) \
    X(281, cuLaunchKernel_v2_ptsz) \
    X(282, cuLaunchCooperativeKernel) \
    X(283, cuLaunchCooperativeKernel_ptsz) \
    X(284, cuLaunchCooperativeKernel_v2) \
    X(285, cuLaunchCooperativeKernel_v2_ptsz) \
    X(286, cuLaunchCooperativeKernelMultiDevice) \
    X(287, cuLaunchCooperativeKernelMultiDevice_ptsz) \
    X(288, cuLaunchCooperativeKernelMultiDevice_v2) \
    X(289, cuLaunchCooperativeKernelMultiDevice_v2_ptsz) \
    X(290, cuLaunchHostFunc) \
    X(291, cuLaunchHostFunc_ptsz) \
    X(292, cuLaunchHostFunc_v2) \
    X(293, cuLaunchHostFunc_v2_ptsz) \
    X(294, cuGraphLaunch) \
    X(295, cuGraphLaunch_ptsz) \
    X(296, cuGraphLaunch_v2) \
    X(297, cuGraphLaunch_v2_ptsz) \
    X(298, cuEventRecord) \
    X(299, cuEventRecord_ptsz) \
    X(300, cuEventRecord_v2) \
    X(301, cuEventRecord_v2_ptsz) \
    X(302, cuEventRecordWithFlags) \
    X(303, cuEventRecordWithFlags_ptsz) \
    X(304, cuEventRecordWithFlags_v2) \
    X(305, cuEventRecordWithFlags_v2_ptsz) \
    X(306, cuStreamWaitEvent) \
    X(307, cuStreamWaitEvent_ptsz) \
    X(308, cuStreamWaitEvent_v2) \
    X(309, cuStreamWaitEvent_v2_ptsz) \
    X(310, cuEventQuery) \
    X(311, cuEventQuery_ptsz) \
    X(312, cuEventQuery_v2) \
    X(313, cuEventQuery_v2_ptsz) \
    X(314, cuStreamQuery) \
    X(315, cuStreamQuery_ptsz) \
    X(316, cuStreamQuery_v2) \
    X(317, cuStreamQuery_v2_ptsz) \
    X(318, cuEventCreate) \
    X(319, cuEventCreate_ptsz) \
    X(320, cuEventCreate_v2) \
    X(321, cuEventCreate_v2_ptsz) \
    X(322, cuEventCreateWithFlags) \
    X(323, cuEventCreateWithFlags_ptsz) \
    X(324, cuEventCreateWithFlags_v2) \
    X(325, cuEventCreateWithFlags_v2_ptsz) \
    X(326, cuEventDestroy) \
    X(327, cuEventDestroy_ptsz) \
    X(328, cuEventDestroy_v2) \
    X(329, cuEventDestroy_v2_ptsz) \
    X(330, cuEventElapsedTime) \
    X(331, cuEventElapsedTime_ptsz) \
    X(332, cuEventElapsedTime_v2) \
    X(333, cuEventElapsedTime_v2_ptsz) \
    X(334, cuStreamBeginCapture) \
    X(335, cuStreamBeginCapture_ptsz) \
    X(336, cuStreamBeginCapture_v2) \
    X(337, cuStreamBeginCapture_v2_ptsz) \
    X(338, cuStreamBeginCaptureToGraph) \
    X(339, cuStreamBeginCaptureToGraph_ptsz) \
    X(340, cuStreamBeginCaptureToGraph_v2) \
    X(341, cuStreamBeginCaptureToGraph_v2_ptsz) \
    X(342, cuStreamEndCapture) \
    X(343, cuStreamEndCapture_ptsz) \
    X(344, cuStreamEndCapture_v2) \
    X(345, cuStreamEndCapture_v2_ptsz) \
    X(346, cuGraphUpload) \
    X(347, cuGraphUpload_ptsz) \
    X(348, cuGraphUpload_v2) \
    X(349, cuGraphUpload_v2_ptsz) \
    X(350, cuGraphCreate) \
    X(351, cuGraphCreate_v2) \
    X(352, cuGraphInstantiate) \
    X(353, cuGraphInstantiate_v2) \
    X(354, cuGraphInstantiateWithFlags) \
    X(355, cuGraphInstantiateWithFlags_v2) \
    X(356, cuGraphInstantiateWithParams) \
    X(357, cuGraphInstantiateWithParams_v2) \
    X(358, cuGraphExecUpdate) \
    X(359, cuGraphExecUpdate_v2) \
    X(360, cuGraphExecDestroy) \
    X(361, cuGraphExecDestroy_v2) \
    X(362, cuGraphDestroy) \
    X(363, cuGraphDestroy_v2) \
    X(364, cuModuleLoad) \
    X(365, cuModuleLoad_v2) \
    X(366, cuModuleLoadData) \
    X(367, cuModuleLoadData_v2) \
    X(368, cuModuleLoadDataEx) \
    X(369, cuModuleLoadDataEx_v2) \
    X(370, cuLibraryLoadData) \
    X(371, cuLibraryLoadData_v2) \
    X(372, cuLibraryLoadFromFile) \
    X(373, cuLibraryLoadFromFile_v2) \
    X(374, cuStreamCreate) \
    X(375, cuStreamCreate_ptsz) \
    X(376, cuStreamCreate_v2) \
    X(377, cuStreamCreate_v2_ptsz) \
    X(378, cuStreamCreateWithPriority) \
    X(379, cuStreamCreateWithPriority_ptsz) \
    X(380, cuStreamCreateWithPriority_v2) \
    X(381, cuStreamCreateWithPriority_v2_ptsz) \
    X(382, cuStreamDestroy) \
    X(383, cuStreamDestroy_ptsz) \
    X(384, cuStreamDestroy_v2) \
    X(385, cuStreamDestroy_v2_ptsz) \
    X(386, cuCtxDestroy) \
    X(387, cuCtxDestroy_v2) \
    X(388, cuMemHostGetFlags) \
    X(389, cuMemHostGetFlags_v2) \
    X(390, ncclAllReduce) \
    X(391, ncclReduceScatter) \
    X(392, ncclBroadcast) \
    X(393, ncclBcast) \
    X(394, ncclReduce) \
    X(395, ncclAllGather) \
    X(396, ncclSend) \
    X(397, ncclRecv) \
    X(398, ncclGroupEnd) \
    X(399, ncclCommSplit) \
    X(400, ncclCommDestroy) \
    X(401, ncclCommAbort) \
    X(402, MPI_Barrier) \
    X(403, MPI_Allreduce) \
    X(404, MPI_Allgather) \
    X(405, MPI_Allgatherv) \
    X(406, MPI_Alltoall) \
    X(407, MPI_Alltoallv) \
    X(408, MPI_Alltoallw) \
    X(409, MPI_Reduce_scatter) \
    X(410, MPI_Reduce_scatter_block) \
    X(411, MPI_Bcast) \
    X(412, MPI_Reduce) \
    X(413, MPI_Gather) \
    X(414, MPI_Gatherv) \
    X(415, MPI_Scatter) \
    X(416, MPI_Scatterv) \
    X(417, MPI_Scan) \
    X(418, MPI_Exscan) \
    X(419, MPI_Send) \
    X(420, MPI_Ssend) \
    X(421, MPI_Rsend) \
    X(422, MPI_Recv) \
    X(423, MPI_Sendrecv) \
    X(424, MPI_Sendrecv_replace) \
    X(425, MPI_Probe) \
    X(426, MPI_Mprobe) \
    X(427, MPI_Mrecv) \
    X(428, MPI_Wait) \
    X(429, MPI_Waitall) \
    X(430, MPI_Waitany) \
    X(431, MPI_Waitsome) \
    X(432, MPI_Init) \
    X(433, MPI_Init_thread) \
    X(434, MPI_Finalize) \
    X(435, MPI_Win_fence) \
    X(436, MPI_Comm_dup) \
    X(437, MPI_Comm_idup) \
    X(438, MPI_Comm_create) \
    X(439, MPI_Comm_dup_with_info) \
    X(440, MPI_Cart_sub) \
    X(441, MPI_Comm_split) \
    X(442, MPI_Comm_split_type) \
    X(443, MPI_Cart_create) \
    X(444, MPI_Graph_create) \
    X(445, MPI_Comm_create_group) \
    X(446, MPI_Intercomm_merge) \
    X(447, MPI_Intercomm_create) \
    X(448, MPI_Dist_graph_create) \
    X(449, MPI_Dist_graph_create_adjacent) \
    X(450, _ZN4gloo7barrierERNS_14BarrierOptionsE) \
    X(451, _ZN4gloo9allreduceERKNS_16AllreduceOptionsE) \
    X(452, _ZN4gloo9allgatherERNS_16AllgatherOptionsE) \
    X(453, _ZN4gloo10allgathervERNS_17AllgathervOptionsE) \
    X(454, _ZN4gloo8alltoallERNS_15AlltoallOptionsE) \
    X(455, _ZN4gloo9alltoallvERNS_16AlltoallvOptionsE) \
    X(456, _ZN4gloo9broadcastERNS_16BroadcastOptionsE) \
    X(457, _ZN4gloo6reduceERNS_13ReduceOptionsE) \
    X(458, _ZN4gloo6gatherERNS_13GatherOptionsE) \
    X(459, _ZN4gloo7scatterERNS_14ScatterOptionsE)

/* Offsets in bytes, 0 where a version has no such field. */
struct layout {
    word minor;
    word frame;
    word frame_in_cframe;
    word has_cframe;
    word code;
    word previous;
    word instruction;
    word owner;
    word bytecode_copy;
    word filename;
    word qualified_name;
    word line_table;
    word first_line;
    word bytecode;
    word bytecode_copies;
    word text_state;
    word text_length;
    word text_size;
    word text_wide;
    word text_shift;
    word bytes_length;
    word bytes_start;
};

static const struct layout FIXED_LAYOUTS[] = {
    {.minor = 11, .frame = 56, .frame_in_cframe = 8, .has_cframe = 1, .code = 32, .previous = 48, .instruction = 56, .owner = 69, .filename = 112, .qualified_name = 128, .line_table = 136, .first_line = 72, .bytecode = 184, .text_state = 32, .text_length = 16, .text_size = 48, .text_wide = 72, .text_shift = 2, .bytes_length = 16, .bytes_start = 32},
    {.minor = 12, .frame = 56, .has_cframe = 1, .previous = 8, .instruction = 56, .owner = 70, .filename = 112, .qualified_name = 128, .line_table = 136, .first_line = 68, .bytecode = 192, .text_state = 32, .text_length = 16, .text_size = 40, .text_wide = 56, .text_shift = 2, .bytes_length = 16, .bytes_start = 32},
};

/* Where `_PyRuntime` says them. */
static const struct layout DESCRIBED_LAYOUTS[] = {
    {.minor = 13, .frame = 184, .code = 240, .previous = 232, .instruction = 248, .owner = 264, .filename = 280, .qualified_name = 296, .line_table = 304, .first_line = 312, .bytecode = 344, .text_state = 544, .text_length = 552, .text_size = 560, .bytes_length = 520, .bytes_start = 528},
    {.minor = 14, .frame = 208, .code = 264, .previous = 256, .instruction = 272, .owner = 288, .bytecode_copy = 304, .filename = 320, .qualified_name = 336, .line_table = 344, .first_line = 352, .bytecode = 384, .bytecode_copies = 392, .text_state = 624, .text_length = 632, .text_size = 640, .bytes_length = 600, .bytes_start = 608},
    {.minor = 15, .frame = 208, .code = 328, .previous = 320, .instruction = 336, .owner = 352, .bytecode_copy = 368, .filename = 384, .qualified_name = 400, .line_table = 408, .first_line = 416, .bytecode = 448, .bytecode_copies = 456, .text_state = 720, .text_length = 728, .text_size = 736, .bytes_length = 696, .bytes_start = 704},
};
