/*
 * Which processes of a run a library acts in, and what it says of itself. Included once by each library.
 *
 * A library acts in the program and in its workers. The program is the first process that is no launcher (a shell, env,
 * timeout, mpirun …); its workers are the processes below it that run the same executable. Every other process that the
 * program starts (a compiler, git, nvidia-smi) finds the library inert, and its own children find nothing of it.
 */

#ifndef PINPROF_SCOPE_H
#define PINPROF_SCOPE_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCOPE_PROGRAM "PINPROF_TRY_PROGRAM" /* the executable that is the program, once that is known */
#define SCOPE_REPORT "PINPROF_TRY_REPORT"   /* the file to say in what was done */
#define SCOPE_OURS "libpinprof_try_"        /* begins the names of these libraries */

static const char *const SCOPE_LAUNCHERS[] = {
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

static void scope_say(const char *line)
{
    int before = errno;
    const char *path = getenv(SCOPE_REPORT);
    int file = path && *path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600) : -1;
    if (file >= 0) {
        ssize_t written = write(file, line, strlen(line));
        (void)written;
        close(file);
    }
    errno = before;
}

/* Say that the library did something, once. */
static void scope_acted(void)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&said))
        scope_say("acts 1\n");
}

/* Whether a list of words separated by commas holds one. */
static bool scope_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (!strncmp(at, word, length) && (at[length] == ',' || !at[length]))
            return true;
    return false;
}

/* Take these libraries out of LD_PRELOAD, so that what this process starts does not load them. */
static void scope_forget(const char *variable)
{
    const char *list = getenv("LD_PRELOAD");
    char *kept = list ? calloc(1, strlen(list) + 1) : NULL;
    if (kept) {
        for (const char *at = list; *at;) {
            size_t length = strcspn(at, ": ");
            const char *name = memrchr(at, '/', length);
            name = name ? name + 1 : at;
            if (length && strncmp(name, SCOPE_OURS, strlen(SCOPE_OURS))) {
                if (*kept)
                    strcat(kept, ":");
                strncat(kept, at, length);
            }
            at += length + (at[length] != 0);
        }
        if (*kept)
            setenv("LD_PRELOAD", kept, 1);
        else
            unsetenv("LD_PRELOAD");
        free(kept);
    }
    unsetenv(variable);
}

/* What the library is to do in this process: the words of a variable, or NULL for nothing. */
static const char *scope_words(const char *variable)
{
    const char *words = getenv(variable);
    const char *program = getenv(SCOPE_PROGRAM);
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (!words || length <= 0)
        return NULL;
    self[length] = 0;
    if (program && strcmp(program, self)) {
        scope_forget(variable);
        return NULL;
    }
    const char *name = strrchr(self, '/') ? strrchr(self, '/') + 1 : self;
    for (size_t i = 0; !program && i < sizeof SCOPE_LAUNCHERS / sizeof *SCOPE_LAUNCHERS; i++)
        if (!strcmp(name, SCOPE_LAUNCHERS[i]))
            return NULL;
    if (!program)
        setenv(SCOPE_PROGRAM, self, 1);
    scope_say("loaded 1\n");
    return words;
}

#endif
