/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A guest's first program that says what its kernel has, a line a thing, and switches off. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

static void there(const char *path)
{
	printf("%s %s\n", access(path, F_OK) ? "missing" : "has", path);
}

static void lines(const char *path)
{
	char line[256];
	FILE *f = fopen(path, "r");

	while (f && fgets(line, sizeof(line), f))
		printf("%s: %s", path, line);
	if (f)
		fclose(f);
}

int main(void)
{
	struct utsname name;
	unsigned char random[8];

	mount("proc", "/proc", "proc", 0, 0);
	mount("sysfs", "/sys", "sysfs", 0, 0);
	mount("devtmpfs", "/dev", "devtmpfs", 0, 0);
	mount("none", "/sys/kernel/tracing", "tracefs", 0, 0);
	mount("none", "/sys/fs/cgroup", "cgroup2", 0, 0);
	uname(&name);
	printf("release %s\n", name.release);
	there("/sys/kernel/tracing/events/vmscan/mm_vmscan_direct_reclaim_begin/format");
	there("/sys/kernel/tracing/events/writeback/balance_dirty_pages/format");
	there("/sys/kernel/tracing/events/kmem/mm_page_alloc/format");
	there("/sys/kernel/mm/lru_gen/enabled");
	there("/proc/pressure/memory");
	there("/proc/config.gz");
	there("/proc/kallsyms");
	there("/proc/sys/vm/dirty_ratio");
	there("/proc/sys/vm/compact_memory");
	there("/proc/sys/kernel/shmmax");
	there("/proc/net/unix");
	there("/proc/self/io");
	there("/job.json");
	lines("/proc/filesystems");
	lines("/sys/fs/cgroup/cgroup.controllers");
	if (getrandom(random, sizeof(random), 0) == sizeof(random)) {
		printf("random ");
		for (int i = 0; i < 8; i++)
			printf("%02x", random[i]);
		printf("\n");
	}
	fflush(stdout);
	sync();
	reboot(RB_POWER_OFF);
	return 0;
}
