/* In which processes of a run cures act, and what they say.
 *
 * They act in the program and in its workers. The program is the first process that is no launcher (a shell, env,
 * timeout, mpirun …); its workers are the processes below it that run the same executable. In every other process that
 * the program starts (a compiler, git, nvidia-smi) they do nothing, and its own children find nothing of the agent,
 * unless it records them.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cures.h"

#define MEMORY "PINPROF_TRY_MEMORY"
#define CUDA "PINPROF_TRY_CUDA"
#define PROGRAM "PINPROF_TRY_PROGRAM" /* the executable that is the program, once that is known */
#define REPORT "PINPROF_TRY_REPORT"   /* the file to say in what was done */
#define OURS "libpinprof_inside."     /* begins the agent's name */

static const char *const LAUNCHERS[] = {
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "fish",
    "busybox",
    "env",
    "nice",
    "nohup",
    "time",
    "timeout",
    "setsid",
    "stdbuf",
    "ionice",
    "chrt",
    "taskset",
    "numactl",
    "xargs",
    "make",
    "tini",
    "uv",
    "mpirun",
    "prte",
    "prterun",
    "prted",
    "orterun",
    "orted",
    "srun",
    "mpiexec",
    "mpiexec.hydra",
    "hydra_pmi_proxy",
    "slurmstepd",
};

void cures_say(const char *line)
{
    int before = errno;
    const char *path = getenv(REPORT);
    int file = path && *path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
    if (file >= 0) {
        ssize_t written = write(file, line, strlen(line));
        (void)written;
        close(file);
    }
    errno = before;
}

void cures_acted(void)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&said))
        cures_say("acts 1\n");
}

bool cures_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, word, length) && (at[length] == ',' || !at[length]))
            return true;
    return false;
}

/* Take the agent out of LD_PRELOAD, so that what this process starts does not load it. */
static void leave_preload(void)
{
    const char *list = getenv("LD_PRELOAD");
    char *kept = list ? calloc(1, strlen(list) + 1) : NULL;
    for (const char *at = list; kept && *at;) {
        size_t length = strcspn(at, ": ");
        const char *name = memrchr(at, '/', length);
        name = name ? name + 1 : at;
        if (length && strncmp(name, OURS, strlen(OURS))) {
            if (*kept)
                strcat(kept, ":");
            strncat(kept, at, length);
        }
        at += length + (at[length] != 0);
    }
    if (kept && *kept)
        setenv("LD_PRELOAD", kept, 1);
    else if (kept)
        unsetenv("LD_PRELOAD");
    free(kept);
}

bool cures_begin(void)
{
    const char *memory = getenv(MEMORY), *cuda = getenv(CUDA), *program = getenv(PROGRAM);
    if (!memory && !cuda)
        return false;
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return false;
    self[length] = 0;
    if (program && strcmp(program, self)) {
        if (!getenv("PINPROF_INSIDE"))
            leave_preload();
        unsetenv(MEMORY);
        unsetenv(CUDA);
        return false;
    }
    const char *name = strrchr(self, '/') ? strrchr(self, '/') + 1 : self;
    for (size_t i = 0; !program && i < sizeof LAUNCHERS / sizeof *LAUNCHERS; i++)
        if (!strcmp(name, LAUNCHERS[i]))
            return false;
    if (!program)
        setenv(PROGRAM, self, 1);
    cures_say("loaded 1\n");
    cure_memory(memory);
    cure_cuda(cuda);
    return true;
}
