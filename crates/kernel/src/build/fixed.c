/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What a program would learn from chance, the clock and its process, in a fixed form. Preloaded
 * (LD_PRELOAD) into guests' kernels and the tools that make filesystems.
 *
 * LOWMARK_SEED=N  random bytes (getrandom, getentropy, arc4random, /dev/urandom) are splitmix64's
 *                 from N, 0 if absent.
 * LOWMARK_TIME=S  the time of day is S seconds after the epoch and stands; the process is number 1
 *                 and the superuser's (libuuid stirs these into what is random); files that go into
 *                 an image (lstat, llistxattr) are the superuser's, of that time and without
 *                 extended attributes. If absent, all are as they are: a kernel needs its host's
 *                 timers.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static uint64_t state;
static uint64_t word;
static unsigned left; /* bytes of word that are still unread */
static int frozen;
static time_t now;
static int (*next_clock_gettime)(clockid_t, struct timespec *);
static int (*next_open)(const char *, int, ...);

__attribute__((constructor)) static void begin(void)
{
	const char *seed = getenv("LOWMARK_SEED"), *at = getenv("LOWMARK_TIME");

	if (seed)
		state = strtoull(seed, NULL, 10);
	if (at) {
		now = (time_t)strtoll(at, NULL, 10);
		frozen = 1;
	}
	next_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
	next_open = dlsym(RTLD_NEXT, "open");
}

static void fill(void *to, size_t n)
{
	unsigned char *p = to;

	while (n--) {
		if (!left) {
			uint64_t z = (state += 0x9e3779b97f4a7c15u);

			z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
			z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
			word = z ^ (z >> 31);
			left = 8;
		}
		*p++ = (unsigned char)word;
		word >>= 8;
		left--;
	}
}

ssize_t getrandom(void *to, size_t n, unsigned flags)
{
	(void)flags;
	fill(to, n);
	return (ssize_t)n;
}

int getentropy(void *to, size_t n)
{
	if (n > 256) {
		errno = EIO;
		return -1;
	}
	fill(to, n);
	return 0;
}

void arc4random_buf(void *to, size_t n)
{
	fill(to, n);
}

uint32_t arc4random(void)
{
	uint32_t x;

	fill(&x, sizeof(x));
	return x;
}

uint32_t arc4random_uniform(uint32_t below)
{
	return below ? arc4random() % below : 0;
}

/* As many bytes as the tools ever read, in a file without a name. */
static int random_file(void)
{
	static char bytes[1 << 16];
	int fd = (int)syscall(SYS_memfd_create, "random", 1u /* MFD_CLOEXEC */);

	if (fd < 0)
		return -1;
	fill(bytes, sizeof(bytes));
	if (pwrite(fd, bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
		close(fd);
		return -1;
	}
	return fd;
}

static int is_random(const char *path)
{
	return !strcmp(path, "/dev/urandom") || !strcmp(path, "/dev/random");
}

static int open_file(const char *path, int flags, mode_t mode)
{
	if (is_random(path))
		return random_file();
	if (!next_open)
		return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
	return next_open(path, flags, mode);
}

#define OPEN(name, more)                                                                           \
	int name(const char *path, int flags, ...)                                                 \
	{                                                                                          \
		mode_t mode = 0;                                                                   \
		va_list rest;                                                                      \
                                                                                                   \
		if (flags & (O_CREAT | __O_TMPFILE)) {                                             \
			va_start(rest, flags);                                                     \
			mode = va_arg(rest, mode_t);                                               \
			va_end(rest);                                                              \
		}                                                                                  \
		return open_file(path, flags | (more), mode);                                      \
	}

/* On 64-bit hosts O_LARGEFILE is nothing, and every offset is large. */
OPEN(open, 0)
OPEN(open64, 0)

int __open_2(const char *path, int flags)
{
	return open_file(path, flags, 0);
}

int __open64_2(const char *path, int flags)
{
	return open_file(path, flags, 0);
}

int clock_gettime(clockid_t clock, struct timespec *to)
{
	if (frozen && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
		to->tv_sec = now;
		to->tv_nsec = 0;
		return 0;
	}
	if (!next_clock_gettime)
		return (int)syscall(SYS_clock_gettime, clock, to);
	return next_clock_gettime(clock, to);
}

int gettimeofday(struct timeval *restrict to, void *restrict zone)
{
	struct timespec t;

	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &t))
		return -1;
	to->tv_sec = t.tv_sec;
	to->tv_usec = t.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *to)
{
	struct timespec t = {0};

	clock_gettime(CLOCK_REALTIME, &t);
	if (to)
		*to = t.tv_sec;
	return t.tv_sec;
}

static long (*next_ptrace)(enum __ptrace_request, pid_t, void *, void *);

/*
 * Kernels such as 6.12 keep 2696 bytes of a process's extended state, and a host whose CPU has more (AMX's
 * tiles) takes nothing but all of it back. What the guest doesn't keep is left as it is in the process:
 * a tile needs arch_prctl(ARCH_REQ_XCOMP_PERM), which no process of a guest gets through to the host.
 */
static long set_extended_state(pid_t pid, const struct iovec *kept)
{
	static char whole[1 << 16];
	struct iovec all = {whole, sizeof(whole)};
	const int refused = errno;

	if (next_ptrace(PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, &all))
		return -1;
	if (all.iov_len <= kept->iov_len) {
		errno = refused;
		return -1;
	}
	memcpy(whole, kept->iov_base, kept->iov_len);
	return next_ptrace(PTRACE_SETREGSET, pid, (void *)NT_X86_XSTATE, &all);
}

/*
 * A guest's user processes are traced by its kernel. They end with it, however it ends: without a tracer
 * their system calls would be the host's. (From 6.12 on they ask for that themselves.)
 */
long ptrace(enum __ptrace_request request, ...)
{
	const int old_set_options = 21;
	va_list rest;
	pid_t pid;
	void *address, *data;
	long done;

	va_start(rest, request);
	pid = va_arg(rest, pid_t);
	address = va_arg(rest, void *);
	data = va_arg(rest, void *);
	va_end(rest);
	if (!next_ptrace)
		*(void **)&next_ptrace = dlsym(RTLD_NEXT, "ptrace");
	if (request == PTRACE_SETOPTIONS || (int)request == old_set_options)
		data = (void *)((uintptr_t)data | PTRACE_O_EXITKILL);
	done = next_ptrace(request, pid, address, data);
	if (done && request == PTRACE_SETREGSET && (uintptr_t)address == NT_X86_XSTATE && errno == EFAULT)
		return set_extended_state(pid, data);
	return done;
}

pid_t getpid(void)
{
	return frozen ? 1 : (pid_t)syscall(SYS_getpid);
}

uid_t getuid(void)
{
	return frozen ? 0 : (uid_t)syscall(SYS_getuid);
}

int lstat64(const char *restrict path, struct stat64 *restrict to)
{
	if (syscall(SYS_newfstatat, AT_FDCWD, path, to, AT_SYMLINK_NOFOLLOW))
		return -1;
	if (frozen) {
		to->st_uid = to->st_gid = 0;
		to->st_atim.tv_sec = to->st_mtim.tv_sec = to->st_ctim.tv_sec = now;
		to->st_atim.tv_nsec = to->st_mtim.tv_nsec = to->st_ctim.tv_nsec = 0;
	}
	return 0;
}

ssize_t llistxattr(const char *path, char *list, size_t n)
{
	return frozen ? 0 : (ssize_t)syscall(SYS_llistxattr, path, list, n);
}
