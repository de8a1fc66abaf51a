/* Preloaded into gloo's processes: a short sleep where epoll_wait fires again with no data moved.
 *
 * gloo's event loop polls sockets by level. While another thread holds the lock of a readable pair
 * the loop returns to epoll_wait at once, which fires again, and the loop starves the very thread
 * that it waits for. Two returns in a row without a transfer by this thread mean just that.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const long PAUSE_NS = 20000;
static __thread int fruitless;

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FORWARD(name, ...)                        \
    static __typeof__(&name) next;                \
    if (!next) next = NEXT(name);                 \
    fruitless = 0;                                \
    return next(__VA_ARGS__)

int epoll_wait(int epfd, struct epoll_event *events, int size, int timeout) {
    static __typeof__(&epoll_wait) next;
    if (!next) next = NEXT(epoll_wait);
    if (fruitless > 1) {
        struct timespec pause = {0, PAUSE_NS};
        nanosleep(&pause, NULL);
    }
    int fired = next(epfd, events, size, timeout);
    fruitless = fired > 0 ? fruitless + 1 : 0;
    return fired;
}

ssize_t recv(int fd, void *to, size_t size, int flags) { FORWARD(recv, fd, to, size, flags); }
ssize_t send(int fd, const void *from, size_t size, int flags) {
    FORWARD(send, fd, from, size, flags);
}
ssize_t read(int fd, void *to, size_t size) { FORWARD(read, fd, to, size); }
ssize_t writev(int fd, const struct iovec *from, int count) { FORWARD(writev, fd, from, count); }
