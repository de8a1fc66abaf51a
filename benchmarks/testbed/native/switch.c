/* switch SEED DELAY_NS JITTER_NS QUEUE_BYTES CORE_BPS COST_NS  NETNS DEVICE RACK RATE_BPS ...
 *
 * A packet switch in user space between TAP devices, one in each named network namespace: link
 * rates, one-way delay, jitter and a core link per rack, where the kernel has no netem.
 *
 * Packets of up to 64 KiB stay whole (virtio headers, TSO), which is what makes it cheap. A packet
 * passes a chain of servers: the sender's uplink, the two racks' core links where the racks differ
 * (CORE_BPS 0: no limit), the receiver's downlink. Each server forwards while it receives, so a
 * packet's last byte leaves a server at
 *     max(last byte in, start + bytes / rate),  start = max(first byte in, server free),
 * and a transfer ends when bytes / (slowest rate) + delay have passed, as if it were sent in small
 * frames. Queues hold QUEUE_BYTES and drop what exceeds them. Order within a pair of ports is kept
 * under jitter (normal, never below no delay).
 *
 * A sleeping processor needs tens of microseconds to wake up, on a delay of 250. How late timers
 * fire is measured all along; they are set that much earlier, and a packet that woke the switch is
 * taken to have arrived that much before. COST_NS is taken off for sockets, stacks and devices.
 *
 * Standard input: lines "INDEX RATE_BPS" change a port's rates; end of file ends the switch, so
 * that it never outlives whoever started it. Standard output: "ready" once every device exists.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <math.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { PORTS = 256, FRAME = 1 << 17, MAX_HOPS = 4, BATCH = 32, MOST_LATE_NS = 150000 };

typedef struct { double bps, free_ns; } Server;
typedef struct { int fd, rack; Server up, down; } Port;
typedef struct {
    double at_ns, tail_ns; /* when its first byte reaches the next server; its last byte */
    uint64_t serial;
    int from, to, hop, hops;
    Server *route[MAX_HOPS];
    uint32_t wire, size;
    char data[];
} Packet;

static Port ports[PORTS];
static int n_ports;
static Server core_up[PORTS], core_down[PORTS];
static double last_ns[PORTS][PORTS];
static double delay_ns, jitter_ns, queue_bytes, core_bps, cost_ns;
static Packet **heap;
static size_t heap_size, heap_room;
static uint64_t serials, seed;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void die(const char *what) {
    fprintf(stderr, "switch: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int earlier(const Packet *a, const Packet *b) {
    return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->serial < b->serial);
}

static void push(Packet *packet) {
    if (heap_size == heap_room) {
        heap_room = heap_room ? 2 * heap_room : 1024;
        heap = realloc(heap, heap_room * sizeof *heap);
        if (!heap) die("memory");
    }
    size_t at = heap_size++;
    while (at && earlier(packet, heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = packet;
}

static Packet *pop(void) {
    Packet *first = heap[0], *last = heap[--heap_size];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= heap_size) break;
        if (child + 1 < heap_size && earlier(heap[child + 1], heap[child])) child++;
        if (!earlier(heap[child], last)) break;
        heap[at] = heap[child];
        at = child;
    }
    if (heap_size) heap[at] = last;
    return first;
}

static double uniform(void) { /* xorshift64*, in (0, 1) */
    seed ^= seed >> 12;
    seed ^= seed << 25;
    seed ^= seed >> 27;
    return ((seed * 2685821657736338717ULL >> 11) + 0.5) / 9007199254740992.0;
}

static double drawn_delay_ns(void) {
    double drawn = delay_ns - cost_ns;
    if (jitter_ns > 0)
        drawn += jitter_ns * sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
    return drawn > 0 ? drawn : 0;
}

/* Bytes on the wire: every segment of a large packet has headers of its own, as tbf counts them. */
static uint32_t wire_bytes(const char *data, uint32_t size) {
    const struct virtio_net_hdr *v = (const void *)data;
    const unsigned char *frame = (const unsigned char *)data + sizeof *v;
    uint32_t bytes = size - sizeof *v;
    if (v->gso_type == VIRTIO_NET_HDR_GSO_NONE || !v->gso_size) return bytes;
    if (v->csum_start + 13u > bytes) return bytes;
    uint32_t headers = v->csum_start + (frame[v->csum_start + 12] >> 4) * 4;
    if (headers >= bytes) return bytes;
    return bytes + ((bytes - headers - 1) / v->gso_size) * headers;
}

static void send_on(int from, int to, const char *data, uint32_t size, double now) {
    Packet *p = malloc(sizeof *p + size);
    if (!p) die("memory");
    memcpy(p->data, data, size);
    p->size = size;
    p->wire = wire_bytes(data, size);
    p->from = from;
    p->to = to;
    p->hop = p->hops = 0;
    p->route[p->hops++] = &ports[from].up;
    if (core_bps > 0 && ports[from].rack != ports[to].rack) {
        p->route[p->hops++] = &core_up[ports[from].rack];
        p->route[p->hops++] = &core_down[ports[to].rack];
    }
    p->route[p->hops++] = &ports[to].down;
    p->at_ns = p->tail_ns = now;
    p->serial = serials++;
    push(p);
}

static void take(int from, double now) {
    static char buffer[FRAME];
    for (int i = 0; i < BATCH; i++) {
        ssize_t size = read(ports[from].fd, buffer, sizeof buffer);
        if (size < 0 && (errno == EAGAIN || errno == EINTR || errno == EIO)) return;
        if (size < 0) die("read");
        if (size < (ssize_t)sizeof(struct virtio_net_hdr) + 14) continue;
        const unsigned char *mac = (unsigned char *)buffer + sizeof(struct virtio_net_hdr);
        /* Addresses are given out by port: the last two bytes are its index. */
        int to = mac[4] << 8 | mac[5];
        if (mac[0] & 1) {
            for (int p = 0; p < n_ports; p++)
                if (p != from) send_on(from, p, buffer, size, now);
        } else if (to < n_ports && to != from) {
            send_on(from, to, buffer, size, now);
        }
    }
}

/* The next server takes the packet, or drops it; 0 when it was dropped. */
static int serve(Packet *p) {
    Server *server = p->route[p->hop];
    double start = p->at_ns > server->free_ns ? p->at_ns : server->free_ns;
    if ((start - p->at_ns) * server->bps / 8e9 > queue_bytes) return 0;
    double end = start + p->wire * 8e9 / server->bps;
    server->free_ns = end;
    p->at_ns = start;
    if (end > p->tail_ns) p->tail_ns = end;
    if (p->hop++ == 0) {
        double added = drawn_delay_ns(), *last = &last_ns[p->from][p->to];
        if (p->at_ns + added < *last) added = *last - p->at_ns;
        p->at_ns += added;
        p->tail_ns += added;
        *last = p->at_ns;
    }
    if (p->hop == p->hops) p->at_ns = p->tail_ns;
    return 1;
}

/* Everything that is due, in order of time. */
static void run_until(double now) {
    while (heap_size && heap[0]->at_ns <= now) {
        Packet *p = pop();
        if (p->hop < p->hops) {
            if (serve(p)) {
                push(p);
                continue;
            }
        } else if (write(ports[p->to].fd, p->data, p->size) < 0 && errno != EAGAIN &&
                   errno != EIO && errno != EINVAL) {
            die("write");
        }
        free(p);
    }
}

static int change_rates(void) {
    static char line[4096];
    static size_t used;
    ssize_t size = read(0, line + used, sizeof line - 1 - used);
    if (size <= 0) return size < 0 && (errno == EAGAIN || errno == EINTR);
    used += size;
    line[used] = 0;
    char *at = line, *end;
    while ((end = strchr(at, '\n'))) {
        int index;
        double bps;
        if (sscanf(at, "%d %lf", &index, &bps) == 2 && index >= 0 && index < n_ports && bps > 0)
            ports[index].up.bps = ports[index].down.bps = bps;
        else
            fprintf(stderr, "switch: cannot read a rate in '%.*s'\n", (int)(end - at), at);
        at = end + 1;
    }
    used = strlen(at);
    memmove(line, at, used);
    return 1;
}

static int open_tap(const char *netns, const char *device) {
    int ns = open(netns, O_RDONLY | O_CLOEXEC);
    if (ns < 0 || setns(ns, CLONE_NEWNET) != 0) die(netns);
    close(ns);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) die("/dev/net/tun");
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
    strncpy(request.ifr_name, device, IFNAMSIZ - 1);
    if (ioctl(fd, TUNSETIFF, &request) != 0) die("TUNSETIFF");
    if (ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) != 0) die("TUNSETOFFLOAD");
    return fd;
}

int main(int argc, char **argv) {
    if (argc < 11 || (argc - 7) % 4 || (argc - 7) / 4 > PORTS) {
        fprintf(stderr, "usage: see the top of switch.c\n");
        return 2;
    }
    seed = strtoull(argv[1], NULL, 10) * 0x9E3779B97F4A7C15ULL + 1;
    delay_ns = atof(argv[2]);
    jitter_ns = atof(argv[3]);
    queue_bytes = atof(argv[4]);
    core_bps = atof(argv[5]);
    cost_ns = atof(argv[6]);
    int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    for (int a = 7; a < argc; a += 4) {
        Port *port = &ports[n_ports++];
        port->fd = open_tap(argv[a], argv[a + 1]);
        port->rack = atoi(argv[a + 2]);
        if (port->rack < 0 || port->rack >= PORTS) return 2;
        port->up.bps = port->down.bps = atof(argv[a + 3]);
        core_up[port->rack].bps = core_down[port->rack].bps = core_bps;
    }
    /* Back to where it was started: whoever looks for it looks there. */
    if (home < 0 || setns(home, CLONE_NEWNET) != 0) die("namespace");
    fcntl(0, F_SETFL, O_NONBLOCK);
    puts("ready");
    fflush(stdout);
    struct pollfd polled[PORTS + 1];
    for (int p = 0; p < n_ports; p++) polled[p] = (struct pollfd){ports[p].fd, POLLIN, 0};
    polled[n_ports] = (struct pollfd){0, POLLIN, 0};
    double late_ns = 0, due_ns = 0;
    for (;;) {
        double now = now_ns();
        run_until(now > due_ns ? now : due_ns);
        struct timespec wait = {0, 0};
        double set_ns = now = now_ns();
        if (heap_size) {
            due_ns = heap[0]->at_ns;
            if (due_ns - late_ns > now) {
                set_ns = due_ns - late_ns;
                wait = (struct timespec){(set_ns - now) / 1e9, fmod(set_ns - now, 1e9)};
            }
        }
        int fired = ppoll(polled, n_ports + 1, heap_size ? &wait : NULL, NULL);
        if (fired < 0 && errno != EINTR) die("ppoll");
        double woken = now_ns();
        if (fired == 0 && set_ns > now) {
            double late = woken - set_ns; /* what took longer was another process's turn */
            late_ns += ((late < MOST_LATE_NS ? late : MOST_LATE_NS) - late_ns) / 64;
        } else if (fired != 0) {
            due_ns = 0;
        }
        /* Had it slept at all? If not, nobody had to be woken. */
        double arrived = woken - now > late_ns ? woken - late_ns : woken;
        for (int p = 0; p < n_ports; p++)
            if (polled[p].revents & POLLIN) take(p, arrived);
        if (polled[n_ports].revents && !change_rates()) return 0;
    }
}
