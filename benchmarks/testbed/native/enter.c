/* enter NETNS rr|other PRIORITY COMMAND...
 *
 * Runs COMMAND inside a network namespace under a scheduling policy. Not Python's preexec_fn, which
 * is unsafe beside threads, and not chrt and nsenter, which not every machine has.
 * Exit codes before COMMAND runs: 125 namespace, 126 policy refused, 127 command not found.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* cgroup v1 refuses real-time policies outside its root group unless that group has a budget. */
static void move_to_root_cpu_group(void) {
    static const char *const lists[] = {"/sys/fs/cgroup/cpu/tasks",
                                        "/sys/fs/cgroup/cpu,cpuacct/tasks"};
    for (int i = 0; i < 2; i++) {
        int fd = open(lists[i], O_WRONLY | O_CLOEXEC);
        if (fd < 0) continue;
        if (write(fd, "0", 1) < 0) { /* the policy call that follows tells */ }
        close(fd);
    }
}

static int set_policy(const char *name, int priority) {
    struct sched_param param = {.sched_priority = 0};
    if (strcmp(name, "other") == 0) return sched_setscheduler(0, SCHED_OTHER, &param);
    if (strcmp(name, "rr") != 0) {
        errno = EINVAL;
        return -1;
    }
    param.sched_priority = priority;
    if (sched_setscheduler(0, SCHED_RR, &param) == 0) return 0;
    move_to_root_cpu_group();
    return sched_setscheduler(0, SCHED_RR, &param);
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: enter NETNS rr|other PRIORITY COMMAND...\n");
        return 125;
    }
    int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
        fprintf(stderr, "enter: namespace %s: %s\n", argv[1], strerror(errno));
        return 125;
    }
    if (set_policy(argv[2], atoi(argv[3])) != 0) {
        fprintf(stderr, "enter: scheduling policy %s: %s\n", argv[2], strerror(errno));
        return 126;
    }
    prctl(PR_SET_TIMERSLACK, 1UL); /* emulated compute sleeps to absolute times */
    execvp(argv[4], argv + 4);
    fprintf(stderr, "enter: %s: %s\n", argv[4], strerror(errno));
    return 127;
}
