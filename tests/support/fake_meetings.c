/* Stand-ins for MPI, NCCL and Gloo. Ranks are processes that share the file named in MEETINGS, and wait for each other
 * in MPI's barrier as in all of MPI's collectives; NCCL's and Gloo's functions come back at once.
 */
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

struct communicator {
    int count, member[16];
};

struct place {
    _Atomic int came, turn;
};

EXPORTED struct communicator ompi_mpi_comm_world;
static struct place *places;
static int mine;

typedef struct communicator *comm;

EXPORTED int MPI_Init(int *count, char ***arguments)
{
    (void)count, (void)arguments;
    int file = open(getenv("MEETINGS"), O_RDWR);
    places = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    mine = atoi(getenv("RANK"));
    ompi_mpi_comm_world.count = atoi(getenv("WORLD_SIZE"));
    for (int i = 0; i < ompi_mpi_comm_world.count; i++)
        ompi_mpi_comm_world.member[i] = i;
    return places == MAP_FAILED;
}

static int meet(comm of)
{
    struct place *place = &places[of->member[0] + 8 * (of->count != ompi_mpi_comm_world.count)];
    int turn = atomic_load(&place->turn);
    if (atomic_fetch_add(&place->came, 1) + 1 == of->count) {
        atomic_store(&place->came, 0);
        atomic_fetch_add(&place->turn, 1);
    }
    while (atomic_load(&place->turn) == turn)
        sched_yield();
    return 0;
}

EXPORTED int MPI_Barrier(comm of) { return meet(of); }

EXPORTED int MPI_Allreduce(const void *from, void *to, int count, int type, int op, comm of)
{
    (void)op;
    memcpy(to, from, (size_t)(count * type));
    return meet(of);
}

EXPORTED int MPI_Send(const void *from, int count, int type, int to, int tag, comm of)
{
    (void)from, (void)count, (void)type, (void)to, (void)of;
    return tag == 99 ? 5 : 0;
}

EXPORTED int MPI_Comm_split(comm of, int color, int key, comm *made)
{
    (void)key;
    comm one = *made = calloc(1, sizeof *one);
    for (int i = 0; i < of->count; i++)
        if (of->member[i] % 2 == color)
            one->member[one->count++] = of->member[i];
    return meet(of);
}

EXPORTED int PMPI_Comm_size(comm of, int *size)
{
    *size = of->count;
    return 0;
}

EXPORTED int PMPI_Comm_rank(comm of, int *rank)
{
    for (int i = 0; i < of->count; i++)
        if (of->member[i] == mine)
            *rank = i;
    return 0;
}

EXPORTED int PMPI_Comm_group(comm of, comm *group)
{
    *group = of;
    return 0;
}

EXPORTED int PMPI_Group_free(comm *group)
{
    *group = NULL;
    return 0;
}

EXPORTED int PMPI_Group_translate_ranks(comm from, int count, const int *rank, comm to, int *found)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < to->count; j++)
            if (to->member[j] == from->member[rank[i]])
                found[i] = j;
    return 0;
}

EXPORTED int PMPI_Type_size(int type, int *size)
{
    *size = type;
    return 0;
}

struct id {
    char bytes[128];
};

EXPORTED int ncclCommInitRank(void **made, int size, struct id id, int rank)
{
    static char handles[16];
    *made = &handles[(unsigned char)id.bytes[127] % 8];
    return id.bytes[0] == size + rank ? 0 : 4;
}

EXPORTED int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *of, void *stream)
{
    return from == to && count && type == 7 && op == 0 && of && stream ? 0 : 4;
}

EXPORTED int ncclCommDestroy(void *of) { return !of; }

struct options {
    struct {
        int rank, size, base;
    } *context;
};

EXPORTED void _ZN4gloo7barrierERNS_14BarrierOptionsE(struct options *options) { options->context->base = 2; }
