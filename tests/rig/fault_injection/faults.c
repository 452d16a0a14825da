/* Preloaded into a program, fails calls of it as a page in memory says, which a test shares with it.
 *
 * What there is to acquire: descriptors, memory, threads, room on a disk. What a disk does: it
 * reads, writes, syncs. The wall clock may be off, too. The page is described in injector.py,
 * which writes it; nothing is failed while no rule in it is active.
 *
 * gcc -O1 -shared -fPIC -o faults.so faults.c -ldl
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum call { /* as in injector.py */
    OPEN, CREATE, LIST, READ, WRITE, SYNC, SYNC_FOLDER, RENAME, REMOVE, TRUNCATE, SET_ASIDE,
    MAKE_FOLDER, ACCEPT, SOCKET, PIPE, EPOLL, WATCH, MAP, THREAD
};
enum action { FAIL, HALF, KILL_BEFORE, KILL_AFTER };
enum verdict { GO_ON, REFUSE, DO_HALF, DO_AND_DIE };

struct rule {
    volatile int64_t is_active;
    int64_t calls;  /* a bit for each */
    int64_t code;   /* errno */
    int64_t after;  /* so many pass before */
    int64_t times;  /* so many fail; all, if negative */
    int64_t action;
    int64_t seen, hits;
    char part[192]; /* of the path, if any */
};
#define RULES 8
struct page {
    volatile int64_t clock_off_ms;
    int64_t unused[31];
    struct rule rules[RULES];
};

static struct page *page;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FAULTS_PAGE");
    int descriptor = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (descriptor < 0)
        return;
    void *memory = mmap(0, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (memory != MAP_FAILED)
        page = memory;
}

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static int applies(struct rule *rule, enum call call, const char *path)
{
    if (!rule->is_active || !(rule->calls >> call & 1))
        return 0;
    if (rule->part[0] && !(path && strstr(path, rule->part)))
        return 0;
    int64_t number = __atomic_fetch_add(&rule->seen, 1, __ATOMIC_SEQ_CST);
    return number >= rule->after && (rule->times < 0 || number < rule->after + rule->times);
}

static enum verdict judge(enum call call, const char *path)
{
    if (!page)
        return GO_ON;
    for (struct rule *rule = page->rules; rule < page->rules + RULES; rule++) {
        if (!applies(rule, call, path))
            continue;
        __atomic_fetch_add(&rule->hits, 1, __ATOMIC_SEQ_CST);
        if (rule->action == KILL_BEFORE)
            die();
        errno = (int)rule->code;
        return rule->action == KILL_AFTER ? DO_AND_DIE : rule->action == HALF ? DO_HALF : REFUSE;
    }
    return GO_ON;
}

static int is_watched(enum call call)
{
    if (page)
        for (struct rule *rule = page->rules; rule < page->rules + RULES; rule++)
            if (rule->is_active && rule->calls >> call & 1)
                return 1;
    return 0;
}

static enum verdict judge_open(enum call call, int descriptor)
{
    char link[64], path[PATH_MAX];
    if (!is_watched(call))
        return GO_ON;
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = before;
    if (length <= 0 || path[0] != '/') /* a socket or a pipe */
        return GO_ON;
    path[length] = 0;
    return judge(call, path);
}

#define REAL(name) ({ \
        static __typeof__(&name) found; \
        if (!found) \
            found = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
        found; \
    })

/* A function that is refused as a whole, with what it answers then. */
#define GUARD(type, name, parameters, arguments, judged, refused) \
    type name parameters { \
        enum verdict said = judged; \
        if (said == REFUSE || said == DO_HALF) return refused; \
        type result = REAL(name) arguments; \
        if (said == DO_AND_DIE) die(); \
        return result; \
    }

/* -- files, by name ------------------------------------------------------------------------- */

#define OPENER(name) \
    int name(const char *path, int flags, ...) { \
        mode_t mode = 0; \
        if (flags & (O_CREAT | __O_TMPFILE)) { \
            va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); \
        } \
        enum verdict said = judge(flags & O_CREAT ? CREATE : OPEN, path); \
        if (said == REFUSE || said == DO_HALF) return -1; \
        int result = REAL(name)(path, flags, mode); \
        if (said == DO_AND_DIE) die(); \
        return result; \
    }
OPENER(open)
OPENER(open64)

GUARD(DIR *, opendir, (const char *path), (path), judge(LIST, path), NULL)
GUARD(int, unlink, (const char *path), (path), judge(REMOVE, path), -1)
GUARD(int, rmdir, (const char *path), (path), judge(REMOVE, path), -1)
GUARD(int, mkdir, (const char *path, mode_t mode), (path, mode), judge(MAKE_FOLDER, path), -1)
GUARD(int, rename, (const char *from, const char *to), (from, to), judge(RENAME, to), -1)

/* -- open files ------------------------------------------------------------------------------ */

#define WRITER(name, offset) \
    ssize_t name(int file, const void *data, size_t size, offset position) { \
        enum verdict said = judge_open(WRITE, file); \
        if (said == REFUSE) return -1; \
        if (said == DO_HALF) { \
            int code = errno; \
            if (REAL(name)(file, data, size / 2, position) < 0) code = errno; \
            errno = code; \
            return -1; \
        } \
        ssize_t result = REAL(name)(file, data, size, position); \
        if (said == DO_AND_DIE) die(); \
        return result; \
    }
WRITER(pwrite, off_t)
WRITER(pwrite64, off64_t)

#define OPEN_FILE(type, name, parameters, arguments, file, call) \
    GUARD(type, name, parameters, arguments, judge_open(call, file), -1)
OPEN_FILE(ssize_t, write, (int file, const void *data, size_t size), (file, data, size), file, WRITE)
OPEN_FILE(ssize_t, pread, (int file, void *to, size_t size, off_t at), (file, to, size, at), file, READ)
OPEN_FILE(ssize_t, pread64, (int file, void *to, size_t size, off64_t at), (file, to, size, at), file, READ)
OPEN_FILE(ssize_t, preadv, (int file, const struct iovec *to, int count, off_t at), (file, to, count, at), file, READ)
OPEN_FILE(ssize_t, preadv64, (int file, const struct iovec *to, int count, off64_t at), (file, to, count, at), file, READ)
OPEN_FILE(ssize_t, preadv2, (int file, const struct iovec *to, int count, off_t at, int flags), (file, to, count, at, flags), file, READ)
OPEN_FILE(ssize_t, preadv64v2, (int file, const struct iovec *to, int count, off64_t at, int flags), (file, to, count, at, flags), file, READ)
OPEN_FILE(ssize_t, sendfile, (int out, int file, off_t *at, size_t size), (out, file, at, size), file, READ)
OPEN_FILE(ssize_t, sendfile64, (int out, int file, off64_t *at, size_t size), (out, file, at, size), file, READ)
OPEN_FILE(int, fdatasync, (int file), (file), file, SYNC)
OPEN_FILE(int, ftruncate, (int file, off_t size), (file, size), file, TRUNCATE)
OPEN_FILE(int, ftruncate64, (int file, off64_t size), (file, size), file, TRUNCATE)
OPEN_FILE(int, fallocate, (int file, int mode, off_t at, off_t size), (file, mode, at, size), file, SET_ASIDE)
OPEN_FILE(int, fallocate64, (int file, int mode, off64_t at, off64_t size), (file, mode, at, size), file, SET_ASIDE)

static enum call kind_of_sync(int file)
{
    struct stat found;
    return !fstat(file, &found) && S_ISDIR(found.st_mode) ? SYNC_FOLDER : SYNC;
}
OPEN_FILE(int, fsync, (int file), (file), file, kind_of_sync(file))

/* -- descriptors of other kinds, memory, threads ------------------------------------------------ */

GUARD(int, accept4, (int at, struct sockaddr *who, socklen_t *size, int flags), (at, who, size, flags), judge(ACCEPT, NULL), -1)
GUARD(int, accept, (int at, struct sockaddr *who, socklen_t *size), (at, who, size), judge(ACCEPT, NULL), -1)
GUARD(int, socket, (int family, int type, int protocol), (family, type, protocol), judge(SOCKET, NULL), -1)
GUARD(int, socketpair, (int family, int type, int protocol, int two[2]), (family, type, protocol, two), judge(SOCKET, NULL), -1)
GUARD(int, pipe2, (int two[2], int flags), (two, flags), judge(PIPE, NULL), -1)
GUARD(int, pipe, (int two[2]), (two), judge(PIPE, NULL), -1)
GUARD(int, epoll_create1, (int flags), (flags), judge(EPOLL, NULL), -1)

int epoll_ctl(int epoll, int operation, int file, struct epoll_event *event)
{
    if (operation != EPOLL_CTL_DEL && judge(WATCH, NULL) != GO_ON)
        return -1;
    return REAL(epoll_ctl)(epoll, operation, file, event);
}

#define MAPPER(name, offset) \
    void *name(void *at, size_t size, int protection, int flags, int file, offset position) { \
        if (flags & MAP_ANONYMOUS && judge(MAP, NULL) != GO_ON) return MAP_FAILED; \
        return REAL(name)(at, size, protection, flags, file, position); \
    }
MAPPER(mmap, off_t)
MAPPER(mmap64, off64_t)

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    int before = errno;
    if (judge(THREAD, NULL) != GO_ON) {
        int code = errno;
        errno = before;
        return code;
    }
    return REAL(pthread_create)(thread, attributes, run, argument);
}

/* -- the wall clock ----------------------------------------------------------------------------- */

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int result = REAL(clock_gettime)(clock, time);
    if (!result && page && page->clock_off_ms && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t nanoseconds = time->tv_nsec + page->clock_off_ms % 1000 * 1000000;
        time->tv_sec += page->clock_off_ms / 1000 + (nanoseconds >= 1000000000) - (nanoseconds < 0);
        time->tv_nsec = (nanoseconds + 1000000000) % 1000000000;
    }
    return result;
}

time_t time(time_t *seconds)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (seconds)
        *seconds = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}
