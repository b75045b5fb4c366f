// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The clock of a QEMU guest: virtual time made of executed instructions, every vCPU at a stated speed. This file is a TCG
 * plugin and a preloaded library at once (QEMU 9.1 and later; 10 and 11 are tested):
 *
 *   LOWMARK_PLUGIN_API=4 LD_PRELOAD=vt.so qemu-system-x86_64 -name x,debug-threads=on -accel tcg,thread=single \
 *       -plugin vt.so,mips=2000
 *
 * Time passes in windows of at most `quantum` ns, each of which ends at the next timer at the latest. In a window every vCPU
 * that is not halted executes `mips` instructions a microsecond, one vCPU after another; then time has moved by the window,
 * whatever the number of vCPUs, and the timers that are due run. If all vCPUs are halted, time jumps to the next timer. All
 * of that happens in the thread of the vCPUs. QEMU's main loop gets a turn only while that thread stands still, at times
 * that the guest alone determines: with a main loop that runs freely no two runs of a guest are equal.
 *
 * Without -icount, TCG leaves three hooks of its `AccelOpsClass` unset (get_virtual_clock, set_virtual_clock and
 * get_elapsed_ticks). `set_hooks` finds their places by trying and sets them, so that QEMU's timers and the guest's TSC follow
 * this clock. The functions of QEMU that are called are among the symbols that a QEMU built with modules exports.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* ---- The part of QEMU's plugin interface that is used; Debian packages no header of it. ---- */
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;
typedef struct {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
} qemu_plugin_u64;
enum { INLINE_ADD_U64 = 0, NO_REGS = 0, COND_GE = 7, MEM_R = 1, MEM_W = 2 };
typedef void (*vcpu_udata_cb)(unsigned vcpu, void *userdata);
struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t element_size);
void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *score, unsigned vcpu);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t nth);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t len);
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *tb, int op, qemu_plugin_u64 entry, uint64_t imm);
void qemu_plugin_register_vcpu_tb_exec_cond_cb(struct qemu_plugin_tb *tb, vcpu_udata_cb cb, int flags, int cond, qemu_plugin_u64 entry,
					       uint64_t imm, void *userdata);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, vcpu_udata_cb cb, int flags, void *userdata);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *insn, int op, qemu_plugin_u64 entry, uint64_t imm);
void qemu_plugin_register_vcpu_mem_inline_per_vcpu(struct qemu_plugin_insn *insn, int rw, int op, qemu_plugin_u64 entry, uint64_t imm);

/* The interface's version that QEMU reads when it loads the plugin; the constructor below sets it. */
EXPORT int qemu_plugin_version = 4;
/* From version 7 (QEMU 11) on callbacks have user data behind the argument, and no plugin's id before it. */
enum { USERDATA_API = 7 };

enum { MOST_CPUS = 64, CLOCK_OF_THE_GUEST = 1 /* QEMU_CLOCK_VIRTUAL */, ALL_ATTRS = -1 };

/* A vCPU's counter at this value makes QEMU call `window_is_over`. */
#define LIMIT (1ull << 60)

/* ---- Functions of QEMU ---- */
typedef struct CPUState CPUState;
static void **(*cpus_get_accel)(void);
static int64_t (*deadline_ns)(int clock, int attrs);
static int64_t (*advance)(int64_t to);
static void (*cpu_exit)(CPUState *);
static void (*init_cflags)(CPUState *, bool parallel);
static CPUState *(*get_cpu)(int);
static bool (*all_idle)(void), (*is_idle)(CPUState *), (*is_running)(void);
static void (*bql_lock)(const char *, int), (*bql_unlock)(void);
static bool (*bql_locked)(void);
static __thread CPUState **current;

/* ---- State of the clock; places and lengths are instructions of one vCPU. ---- */
struct counter {
	uint64_t n; /* LIMIT - window + place in the window */
};
static struct qemu_plugin_scoreboard *board;
static qemu_plugin_u64 counter;
static uint64_t mips = 2000, quantum_ns = 2000, pause_ns = 50, tsc_mhz = 1000;
static uint64_t longest, window; /* the longest window, and the present one */
static uint64_t begun;           /* the place at which the present window began */
static int64_t last_ns;          /* the latest time that was read */
static unsigned cpus;
static struct {
	struct counter *count;
	CPUState *of;
	uint64_t place;  /* of a halted vCPU: where it halted */
	uint64_t forced; /* added to the counter so that the next block calls us */
	int halted;
} cpu[MOST_CPUS];
static int active;    /* the hooks are set */
static int in_timers; /* this file runs timers or asks for them: the time stands still */
static int new_timer; /* a timer may have been set since the window was cut */
static int64_t turn_ns, turn_every = 1000000; /* when the main loop had its last turn; how often it has one */

static uint64_t to_ns(uint64_t insns)
{
	return (unsigned __int128)insns * 1000 / mips;
}

static uint64_t to_insns(uint64_t ns)
{
	return ((unsigned __int128)ns * mips + 999) / 1000;
}

/* Returns a vCPU's place in the present window. */
static uint64_t place(unsigned i)
{
	return cpu[i].halted ? cpu[i].place : cpu[i].count->n - cpu[i].forced - (LIMIT - window);
}

static uint64_t furthest(void)
{
	uint64_t most = 0;

	for (unsigned i = 0; i < cpus; i++)
		if (place(i) > most)
			most = place(i);
	return most;
}

/* Returns the vCPU whose code runs in this thread, or -1. */
static int running(void)
{
	if (current)
		for (unsigned i = 0; i < cpus; i++)
			if (cpu[i].of == *current)
				return i;
	return -1;
}

/* Returns the time at a place, never earlier than a time that was read before. */
static int64_t at(uint64_t insns)
{
	int64_t ns = to_ns(insns);

	if (ns > last_ns)
		last_ns = ns;
	return last_ns;
}

/* Returns the ns to the guest's next timer; negative: there is none. */
static int64_t next_timer(void)
{
	int64_t ns;

	in_timers = 1;
	ns = deadline_ns(CLOCK_OF_THE_GUEST, ALL_ATTRS);
	in_timers = 0;
	return ns;
}

/* Hook: the guest's clock. A device that reads it may set a timer, so the vCPU's next block looks for a new one first. */
static int64_t vt_get(void)
{
	int i = in_timers ? -1 : running();

	if (i < 0 || cpu[i].halted)
		return in_timers ? last_ns : at(begun + furthest());
	if (cpu[i].count->n < LIMIT) {
		cpu[i].forced = LIMIT - cpu[i].count->n;
		cpu[i].count->n = LIMIT;
	}
	return at(begun + place(i));
}

/* Hook: the guest's TSC. A read of it sets no timer. */
static int64_t vt_ticks(void)
{
	int i = running();
	int64_t ns = i < 0 || cpu[i].halted ? at(begun + furthest()) : at(begun + place(i));

	return (__int128)ns * tsc_mhz / 1000;
}

/* Hook: moves the clock forward. */
static void vt_set(int64_t ns)
{
	if (ns > last_ns)
		last_ns = ns;
}

/* Runs the timers that are due. The big lock is held. */
static void run_timers(void)
{
	in_timers = 1;
	advance(last_ns + 1);
	in_timers = 0;
}

static void main_loops_turn(int held);

/* Begins the window behind the one that has ended: time moves on, timers run, the length follows the next timer. */
static void next_window(void)
{
	uint64_t length = window;
	int64_t timer;

	begun += length;
	for (unsigned j = 0; j < cpus; j++)
		if (cpu[j].halted)
			cpu[j].place = 0;
	at(begun);
	timer = next_timer();
	if (timer == 0) {
		bql_lock(__FILE__, __LINE__);
		run_timers();
		bql_unlock();
		timer = next_timer();
	}
	if (last_ns - turn_ns > 100 * turn_every)
		main_loops_turn(0);
	window = longest;
	if (timer >= 0 && timer < (int64_t)quantum_ns + 1000) {
		uint64_t to = to_insns(last_ns + timer);

		to = to > begun ? to - begun : 1;
		if (to < window)
			window = to;
	}
	/* A vCPU that ended the last window `length` behind its limit starts this one `window` before the limit. */
	for (unsigned j = 0; j < cpus; j++)
		if (!cpu[j].halted)
			cpu[j].count->n -= window;
}

/* Ends the present window at a timer that was set within it, unless a vCPU is already further. */
static void cut_window(unsigned i)
{
	int64_t timer;
	uint64_t to, most = furthest();

	at(begun + place(i));
	timer = next_timer();
	if (timer < 0 || timer >= (int64_t)quantum_ns)
		return;
	to = to_insns(last_ns + timer);
	to = to > begun ? to - begun : 1;
	if (to < most)
		to = most;
	if (to >= window)
		return;
	for (unsigned j = 0; j < cpus; j++)
		if (!cpu[j].halted)
			cpu[j].count->n += window - to;
	window = to;
}

/* Returns 1 if another vCPU than `i` has instructions left in the present window. */
static int others_have_time(unsigned i)
{
	for (unsigned j = 0; j < cpus; j++)
		if (j != i && !is_idle(cpu[j].of) && (cpu[j].halted || cpu[j].count->n - cpu[j].forced < LIMIT))
			return 1;
	return 0;
}

/* Callback of a block whose vCPU has its counter at the limit: its window is over, it was woken, or it read the clock. */
static void window_is_over(unsigned i, void *userdata)
{
	int others;

	(void)userdata;
	if (!current)
		current = dlsym(RTLD_DEFAULT, "current_cpu");
	if (cpu[i].halted) {
		/* Woken by a timer or by another vCPU, whose place it takes over. */
		uint64_t extra = cpu[i].count->n - LIMIT, most = furthest();

		if (most > window)
			most = window;
		cpu[i].halted = 0;
		cpu[i].forced = 0;
		cpu[i].count->n = LIMIT - window + most + extra;
		new_timer = 1;
	} else if (cpu[i].forced) {
		cpu[i].count->n -= cpu[i].forced;
		cpu[i].forced = 0;
		new_timer = 1;
	}
	if (new_timer) {
		new_timer = 0;
		cut_window(i);
		if (cpu[i].count->n < LIMIT)
			return;
	}
	do {
		others = others_have_time(i);
		if (others)
			break;
		next_window();
	} while (cpu[i].count->n >= LIMIT);
	for (unsigned j = 0; j < cpus && !others; j++)
		others = j != i && !is_idle(cpu[j].of);
	if (others)
		cpu_exit(cpu[i].of); /* the next vCPU's turn */
}

/* Callback of the instruction HLT. */
static void halts(unsigned i, void *userdata)
{
	(void)userdata;
	if (cpu[i].halted)
		return;
	cpu[i].place = place(i);
	cpu[i].halted = 1;
	cpu[i].forced = 0;
	cpu[i].count->n = LIMIT;
}

/* Jumps to the next timer while all vCPUs are halted. The big lock is held. Returns 0 if there is no timer. */
static int jump(void)
{
	if (!active || !is_running())
		return 0;
	while (all_idle()) {
		int64_t timer;

		at(begun + furthest());
		timer = next_timer();
		if (timer < 0)
			return 0;
		last_ns += timer;
		run_timers();
		begun = to_insns(last_ns);
		window = longest;
		for (unsigned i = 0; i < cpus; i++)
			cpu[i].place = 0;
		if (last_ns - turn_ns >= turn_every)
			main_loops_turn(1);
		if (!is_running())
			return !all_idle(); /* QEMU was asked to stop: its vCPUs must report that they have */
	}
	return 1;
}

/* Counts the instructions of a new block, and the elements of string instructions, which loop inside of a block. */
static void translated(struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);

	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, INLINE_ADD_U64, counter, n);
	qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, window_is_over, NO_REGS, COND_GE, counter, LIMIT, NULL);
	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint8_t b[16] = { 0 };
		size_t k = 0, len = qemu_plugin_insn_data(insn, b, sizeof(b));
		int rep = 0;

		while (k < len && memchr("\x66\x67\xf2\xf3\x2e\x3e\x26\x36\x64\x65", b[k], 10))
			rep |= (b[k++] & 0xfe) == 0xf2;
		if ((b[k] & 0xf0) == 0x40 && k + 1 < len) /* REX; in 32 bits an INC, alone in its instruction */
			k++;
		if (b[k] == 0xf4) {
			qemu_plugin_register_vcpu_insn_exec_cb(insn, halts, NO_REGS, NULL);
		} else if (b[k] == 0x90 && rep) { /* PAUSE */
			qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, INLINE_ADD_U64, counter, mips * pause_ns / 1000);
		} else if (rep && ((b[k] >= 0xa4 && b[k] <= 0xa7) || (b[k] >= 0xaa && b[k] <= 0xaf) || (b[k] >= 0x6c && b[k] <= 0x6f))) {
			int stores = (b[k] & 0xfe) == 0xa4 || (b[k] & 0xfe) == 0xaa || (b[k] & 0xfe) == 0x6c;

			qemu_plugin_register_vcpu_mem_inline_per_vcpu(insn, stores ? MEM_W : MEM_R, INLINE_ADD_U64, counter, 1);
		}
	}
}

static int probed;
static int64_t probe_get(void) { return probed = 1; }
static void probe_set(int64_t ns) { (void)ns; probed = 1; }

/* Returns the place of a hook in the class, near handle_interrupt: the one whose function `call` makes QEMU call. */
static void *place_of(void **ops, void *probe, void (*call)(void))
{
	void *known = dlsym(RTLD_DEFAULT, "tcg_handle_interrupt");
	int i;

	for (i = 0; i < 64 && ops[i] != known; i++)
		;
	for (int k = i + 1; i < 64 && k < i + 6; k++) {
		if (ops[k])
			continue;
		probed = 0;
		ops[k] = probe;
		call();
		ops[k] = NULL;
		if (probed)
			return &ops[k];
	}
	fprintf(stderr, "lowmark's clock: this QEMU's AccelOpsClass has another layout than those of QEMU 10 and 11\n");
	exit(1);
}

static int64_t (*get_clock)(void), (*get_ticks)(void);
static void (*set_clock)(int64_t);
static void call_get(void) { get_clock(); }
static void call_set(void) { set_clock(0); }
static void call_ticks(void) { get_ticks(); }

static void set_hooks(void)
{
	void **ops = cpus_get_accel(), **get, **set, **ticks;

	get = place_of(ops, probe_get, call_get);
	set = place_of(ops, probe_set, call_set);
	ticks = place_of(ops, probe_get, call_ticks);
	*get = vt_get;
	*set = vt_set;
	*ticks = vt_ticks;
	active = 1;
}

static void vcpu_is_new(unsigned i)
{
	if (i >= MOST_CPUS) {
		fprintf(stderr, "lowmark's clock: more than %d CPUs\n", MOST_CPUS);
		exit(1);
	}
	if (!active)
		set_hooks();
	for (; cpus <= i; cpus++)
		cpu[cpus].halted = 1;
	for (unsigned j = 0; j < cpus; j++) { /* the board moves when it grows */
		cpu[j].count = qemu_plugin_scoreboard_find(board, j);
		cpu[j].of = get_cpu(j);
		if (cpu[j].halted)
			cpu[j].count->n = LIMIT;
		/* Without CF_PARALLEL QEMU writes the translating vCPU's index into code that all vCPUs share. */
		if (cpus > 1)
			init_cflags(cpu[j].of, true);
	}
}

/* The callbacks as QEMU 10 and 11 call them. */
static void translated_10(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) { (void)id; translated(tb); }
static void translated_11(struct qemu_plugin_tb *tb, void *userdata) { (void)userdata; translated(tb); }
static void vcpu_is_new_10(qemu_plugin_id_t id, unsigned i) { (void)id; vcpu_is_new(i); }
static void vcpu_is_new_11(unsigned i, void *userdata) { (void)userdata; vcpu_is_new(i); }

static int find(void *to, const char *name)
{
	*(void **)to = dlsym(RTLD_DEFAULT, name);
	if (*(void **)to == NULL)
		fprintf(stderr, "lowmark's clock: this QEMU does not export `%s`, as one that is built with modules does\n", name);
	return *(void **)to != NULL;
}

/* Registers a callback. Functions of QEMU 10 have two arguments; the third does no harm there. */
static void registers(const char *what, qemu_plugin_id_t id, void *callback)
{
	void (*f)(qemu_plugin_id_t, void *, void *) = NULL;

	if (find(&f, what))
		f(id, callback, NULL);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
	int late = qemu_plugin_version >= USERDATA_API;

	(void)info;
	for (int i = 0; i < argc; i++) {
		char *value = strchr(argv[i], '=');
		uint64_t v = value ? strtoull(value + 1, NULL, 10) : 0;

		if (!strncmp(argv[i], "mips=", 5) && v)
			mips = v;
		else if (!strncmp(argv[i], "quantum=", 8) && v)
			quantum_ns = v;
		else
			return fprintf(stderr, "lowmark's clock: `%s`; accepted: mips=N, quantum=NS\n", argv[i]), -1;
	}
	if (!find(&cpus_get_accel, "cpus_get_accel") || !find(&deadline_ns, "qemu_clock_deadline_ns_all") ||
	    !find(&advance, "qemu_clock_advance_virtual_time") || !find(&cpu_exit, "cpu_exit") ||
	    !find(&init_cflags, "tcg_cpu_init_cflags") || !find(&get_cpu, "qemu_get_cpu") ||
	    !find(&all_idle, "all_cpu_threads_idle") || !find(&is_idle, "cpu_thread_is_idle") ||
	    !find(&is_running, "runstate_is_running") || !find(&get_clock, "cpus_get_virtual_clock") ||
	    !find(&set_clock, "cpus_set_virtual_clock") || !find(&get_ticks, "cpus_get_elapsed_ticks") ||
	    !find(&bql_lock, "bql_lock_impl") || !find(&bql_unlock, "bql_unlock") || !find(&bql_locked, "bql_locked"))
		return -1;
	if (dlsym(RTLD_DEFAULT, "ppoll") != (void *)ppoll)
		return fprintf(stderr, "lowmark's clock: it must be in LD_PRELOAD too, by the same name\n"), -1;
	longest = window = mips * quantum_ns / 1000;
	if (longest == 0)
		return fprintf(stderr, "lowmark's clock: a window of %" PRIu64 " ns has no instruction\n", quantum_ns), -1;
	board = qemu_plugin_scoreboard_new(sizeof(struct counter));
	counter = (qemu_plugin_u64){ board, offsetof(struct counter, n) };
	registers("qemu_plugin_register_vcpu_init_cb", id, late ? (void *)vcpu_is_new_11 : (void *)vcpu_is_new_10);
	registers("qemu_plugin_register_vcpu_tb_trans_cb", id, late ? (void *)translated_11 : (void *)translated_10);
	return 0;
}

/* ---- Turns of QEMU's main loop and of its vCPUs' thread: never both at a time. ---- */
enum { MAIN = 1, VCPUS = 2, OTHER = 3 };
static pthread_mutex_t turns = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int vcpus_wait = 1, main_active = 1;
static int asked; /* the vCPUs' thread waits for a turn of the main loop */
static pthread_cond_t *halt_cond;
static pthread_mutex_t *big; /* QEMU's big lock */
static __thread int role;
static int (*real_lock)(pthread_mutex_t *);
static int (*real_unlock)(pthread_mutex_t *);
static int (*real_wait)(pthread_cond_t *, pthread_mutex_t *);
static int (*real_broadcast)(pthread_cond_t *);
static int (*real_ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);

__attribute__((constructor)) static void is_loaded(void)
{
	const char *api = getenv("LOWMARK_PLUGIN_API");

	real_lock = dlsym(RTLD_NEXT, "pthread_mutex_lock");
	real_unlock = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
	real_wait = dlvsym(RTLD_NEXT, "pthread_cond_wait", "GLIBC_2.3.2");
	real_broadcast = dlvsym(RTLD_NEXT, "pthread_cond_broadcast", "GLIBC_2.3.2");
	real_ppoll = dlsym(RTLD_NEXT, "ppoll");
	if (api)
		qemu_plugin_version = atoi(api);
}

/* Returns the role of the calling thread. */
static int my_role(void)
{
	char name[16];

	if (!role) {
		if (getpid() == syscall(SYS_gettid))
			return role = MAIN;
		prctl(PR_GET_NAME, name);
		if (!strstr(name, "TCG"))
			return OTHER; /* the thread may be named later */
		role = VCPUS;
		current = dlsym(RTLD_DEFAULT, "current_cpu");
	}
	return role;
}

/* Gives the main loop one turn and waits for its end; `held`: the caller holds the big lock. */
static void main_loops_turn(int held)
{
	turn_ns = last_ns;
	if (held)
		bql_unlock();
	real_lock(&turns);
	vcpus_wait = asked = 1;
	real_broadcast(&changed);
	while (asked || main_active)
		real_wait(&changed, &turns);
	vcpus_wait = 0;
	real_unlock(&turns);
	if (held)
		bql_lock(__FILE__, __LINE__);
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *cond)
{
	if (active && cond == halt_cond && my_role() != VCPUS) {
		real_lock(&turns);
		if (!asked)
			vcpus_wait = 0; /* the vCPUs' thread is about to wake */
		real_unlock(&turns);
	}
	return real_broadcast(cond);
}

/* Waits of the main loop give the vCPUs their turn; a wait of the vCPUs' thread, which is halted, is a jump in time. */
EXPORT int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	int i = my_role(), r;

	if (!active || i == OTHER)
		return real_wait(cond, mutex);
	if (i == MAIN) {
		real_lock(&turns);
		main_active = asked = 0;
		real_broadcast(&changed);
		real_unlock(&turns);
		r = real_wait(cond, mutex);
		real_lock(&turns);
		main_active = 1;
		real_broadcast(&changed);
		real_unlock(&turns);
		return r;
	}
	halt_cond = cond;
	big = mutex;
	if (bql_locked()) {
		r = jump();
	} else { /* QEMU 11 marks the lock as released before it waits */
		real_unlock(mutex);
		bql_lock(__FILE__, __LINE__);
		r = jump();
		bql_unlock();
		real_lock(mutex);
	}
	if (r)
		return 0;
	real_lock(&turns);
	vcpus_wait = 1;
	real_broadcast(&changed);
	real_unlock(&turns);
	r = real_wait(cond, mutex);
	real_unlock(mutex);
	real_lock(&turns);
	vcpus_wait = 0;
	while (main_active)
		real_wait(&changed, &turns);
	real_unlock(&turns);
	real_lock(mutex);
	return r;
}

/* The main loop polls only while the vCPUs' thread stands still. */
EXPORT int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	static const struct timespec zero;
	int r;

	/* A poll with the big lock held (aio_poll, at QEMU's end) waits for no vCPU. */
	if (!active || my_role() != MAIN || (big && big->__data.__owner == getpid()))
		return real_ppoll(fds, n, timeout, mask);
	real_lock(&turns);
	main_active = 0;
	for (;;) {
		real_broadcast(&changed);
		while (!vcpus_wait)
			real_wait(&changed, &turns);
		if (!asked) {
			/* The vCPUs' thread really waits, or is not there yet. */
			real_unlock(&turns);
			r = real_ppoll(fds, n, timeout, mask);
			real_lock(&turns);
			if (!vcpus_wait)
				continue;
			break;
		}
		r = real_ppoll(fds, n, &zero, mask);
		if (r)
			break;
		asked = vcpus_wait = 0;
	}
	main_active = 1;
	real_unlock(&turns);
	return r;
}
