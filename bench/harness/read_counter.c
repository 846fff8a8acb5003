/* Counts read calls by file, in every process that loads this library (LD_PRELOAD).

   The counts stand in a file that all processes map, so they outlive exec, _exit and kill.  A file is
   known by the path that /proc tells for its descriptor.  bench/harness/read_counter.py reads the counts,
   and has the same layout. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define SLOTS 16384
#define PATH_BYTES 472
#define RING "anon_inode:[io_uring]"

struct slot {
    uint64_t hash; /* of the path; 0: free */
    uint64_t calls, bytes;
    uint64_t maps, mapped_bytes;
    char path[PATH_BYTES];
};

static struct slot *table; /* slot 0: the number of processes, and what finds no slot */

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("LSMKV_READ_COUNTS");
    int fd;
    void *found;
    if (table || !path || (fd = open(path, O_RDWR | O_CLOEXEC)) < 0) return;
    found = mmap(NULL, SLOTS * sizeof(struct slot), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (found == MAP_FAILED) return;
    table = found;
    __atomic_fetch_add(&table[0].hash, 1, __ATOMIC_RELAXED);
}

static struct slot *slot_of(int fd) {
    char link[40], path[PATH_BYTES];
    uint64_t hash = 14695981039346656037ULL; /* FNV-1a */
    ssize_t length, at;
    unsigned tried;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return &table[0];
    path[length] = 0;
    if (path[0] != '/' && strcmp(path, RING)) { /* pipe:[123], socket:[123] */
        char *colon = strchr(path, ':');
        if (colon) *colon = 0;
        length = strlen(path);
    }
    for (at = 0; at < length; at++) hash = (hash ^ (unsigned char)path[at]) * 1099511628211ULL;
    if (!hash) hash = 1;
    for (tried = 0; tried < SLOTS - 1; tried++) {
        struct slot *slot = &table[1 + (hash + tried) % (SLOTS - 1)];
        uint64_t there = 0;
        if (__atomic_compare_exchange_n(&slot->hash, &there, hash, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            memcpy(slot->path, path, length + 1);
            return slot;
        }
        if (there == hash) return slot;
    }
    return &table[0];
}

static ssize_t counted(int fd, ssize_t got) {
    if (table && got >= 0) {
        struct slot *slot = slot_of(fd);
        __atomic_fetch_add(&slot->calls, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&slot->bytes, (uint64_t)got, __ATOMIC_RELAXED);
    }
    return got;
}

/* NAME calls the C library's function of that name, and counts what it returns. */
#define COUNTED(name, parameters, arguments)                                   \
    ssize_t name parameters {                                                  \
        static ssize_t(*real) parameters;                                      \
        if (!real) real = (ssize_t(*) parameters)dlsym(RTLD_NEXT, #name);      \
        return counted(fd, real arguments);                                    \
    }

COUNTED(read, (int fd, void *to, size_t size), (fd, to, size))
COUNTED(__read_chk, (int fd, void *to, size_t size, size_t room), (fd, to, size, room))
COUNTED(pread, (int fd, void *to, size_t size, off_t at), (fd, to, size, at))
COUNTED(pread64, (int fd, void *to, size_t size, off_t at), (fd, to, size, at))
COUNTED(__pread_chk, (int fd, void *to, size_t size, off_t at, size_t room), (fd, to, size, at, room))
COUNTED(__pread64_chk, (int fd, void *to, size_t size, off_t at, size_t room), (fd, to, size, at, room))
COUNTED(readv, (int fd, const struct iovec *to, int count), (fd, to, count))
COUNTED(preadv, (int fd, const struct iovec *to, int count, off_t at), (fd, to, count, at))
COUNTED(preadv64, (int fd, const struct iovec *to, int count, off_t at), (fd, to, count, at))
COUNTED(preadv2, (int fd, const struct iovec *to, int count, off_t at, int flags), (fd, to, count, at, flags))
COUNTED(preadv64v2, (int fd, const struct iovec *to, int count, off_t at, int flags), (fd, to, count, at, flags))

/* Copies within the kernel read their source. */
COUNTED(sendfile, (int to, int fd, off_t *at, size_t size), (to, fd, at, size))
COUNTED(sendfile64, (int to, int fd, off_t *at, size_t size), (to, fd, at, size))
COUNTED(copy_file_range, (int fd, off_t *at, int to, off_t *to_at, size_t size, unsigned flags), (fd, at, to, to_at, size, flags))
COUNTED(splice, (int fd, off_t *at, int to, off_t *to_at, size_t size, unsigned flags), (fd, at, to, to_at, size, flags))

/* What io_uring reads is not seen, but that there is a ring: when it is made, or at the end. */
long syscall(long number, ...) {
    static long (*real)(long, ...);
    long a[6], found;
    int at;
    va_list given;
    va_start(given, number);
    for (at = 0; at < 6; at++) a[at] = va_arg(given, long);
    va_end(given);
    if (!real) real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    found = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
#ifdef SYS_io_uring_setup
    if (number == SYS_io_uring_setup && found >= 0 && table) slot_of((int)found);
#endif
    return found;
}

__attribute__((destructor)) static void end(void) {
    char link[40], path[sizeof RING];
    int fd;
    for (fd = 0; table && fd < 1024; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        if (readlink(link, path, sizeof path) == sizeof RING - 1 && !memcmp(path, RING, sizeof RING - 1)) slot_of(fd);
    }
}

#define MAPPED(name)                                                                            \
    void *name(void *at, size_t size, int protection, int flags, int fd, off_t offset) {        \
        static void *(*real)(void *, size_t, int, int, int, off_t);                             \
        void *found;                                                                            \
        if (!real) real = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, #name); \
        found = real(at, size, protection, flags, fd, offset);                                  \
        if (table && found != MAP_FAILED && fd >= 0 && !(flags & MAP_ANONYMOUS) && (protection & PROT_READ)) { \
            struct slot *slot = slot_of(fd);                                                    \
            __atomic_fetch_add(&slot->maps, 1, __ATOMIC_RELAXED);                               \
            __atomic_fetch_add(&slot->mapped_bytes, (uint64_t)size, __ATOMIC_RELAXED);          \
        }                                                                                       \
        return found;                                                                           \
    }

MAPPED(mmap)
MAPPED(mmap64)
