// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What is wrong is an error that says so, and takes nothing: each line of output is one.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "lowmark_cache.h"

// In this order: what a call leaves as its message is read behind it.
#define SAY(what, call)                                                                  \
	do {                                                                             \
		const long long gave = (call);                                           \
		printf("%s: %lld: %s\n", what, gave, gave < 0 ? lowmark_cache_message() : "-"); \
	} while (0)

static void tell(void *context, const char *message)
{
	printf("%s: 0: %s\n", (const char *)context, message);
}

static void nothing_there(void)
{
	struct lowmark_cache *cache = (void *)1;
	struct lowmark_cache_file *file = (void *)1;
	char *text = (void *)1;
	char byte;
	struct lowmark_cache_stats stats;

	SAY("open nowhere", lowmark_cache_open(NULL, NULL));
	SAY("file of nothing", lowmark_cache_open_file(NULL, "x", &file));
	printf("file: %d\n", file != NULL);
	SAY("shutdown of nothing", lowmark_cache_shutdown(NULL, NULL));
	SAY("stats of nothing", lowmark_cache_get_stats(NULL, &stats));
	SAY("text of nothing", lowmark_cache_openmetrics(NULL, &text));
	printf("text: %d\n", text != NULL);
	SAY("read of nothing", lowmark_cache_read(NULL, 0, &byte, 1));
	SAY("readv of nothing", lowmark_cache_readv(NULL, 0, NULL, 0));
	SAY("write of nothing", lowmark_cache_write(NULL, 0, &byte, 1));
	SAY("writev of nothing", lowmark_cache_writev(NULL, 0, NULL, 0));
	SAY("advise nothing", lowmark_cache_advise(NULL, 0, 0, POSIX_FADV_NORMAL));
	SAY("prefetch nothing", lowmark_cache_prefetch(NULL, 0, 0));
	SAY("drop nothing", lowmark_cache_drop(NULL, 0, 0));
	SAY("flush nothing", lowmark_cache_flush(NULL, 0, 0));
	SAY("fsync nothing", lowmark_cache_fsync(NULL));
	SAY("truncate nothing", lowmark_cache_truncate(NULL, 0));
	SAY("size of nothing", lowmark_cache_size(NULL));
	lowmark_cache_free(NULL);
	lowmark_cache_close(NULL);
	lowmark_cache_unpin(NULL);
	lowmark_cache_free_text(NULL);
	struct lowmark_cache_config config = lowmark_cache_defaults();
	config.memory = 1;
	SAY("little memory", lowmark_cache_open(&config, &cache));
	printf("cache: %d\n", cache != NULL);
	config = lowmark_cache_defaults();
	config.policy = "linux-9.9";
	SAY("policy", lowmark_cache_open(&config, &cache));
	memset(&config, 0, sizeof config);
	SAY("zeros", lowmark_cache_open(&config, &cache));
}

static void uses(struct lowmark_cache *cache, struct lowmark_cache_file *file)
{
	struct lowmark_cache_file *other;
	struct lowmark_cache_page *page = (void *)1;
	const void *bytes = (void *)1;
	void *mine;
	char buffer[8] = "";
	struct iovec hole[] = { { buffer, 8 }, { NULL, 1 } };
	struct iovec much[] = { { buffer, SIZE_MAX }, { buffer, 8 } };
	struct iovec none[] = { { buffer, 2 }, { NULL, 0 } };

	SAY("no name", lowmark_cache_open_file(cache, NULL, &other));
	SAY("no place", lowmark_cache_open_file(cache, "x", NULL));
	SAY("a folder", lowmark_cache_open_file(cache, ".", &other));
	SAY("a device", lowmark_cache_open_file(cache, "/dev/null", &other));
	SAY("no folder", lowmark_cache_open_file(cache, "a/b/c", &other));
	SAY("no buffer", lowmark_cache_read(file, 0, NULL, 1));
	SAY("no bytes", lowmark_cache_write(file, 0, NULL, 1));
	SAY("nothing of nothing", lowmark_cache_write(file, 0, NULL, 0));
	SAY("a long buffer", lowmark_cache_read(file, 0, buffer, SIZE_MAX));
	SAY("a hole", lowmark_cache_writev(file, 0, hole, 2));
	SAY("an empty piece", lowmark_cache_writev(file, 0, none, 2));
	SAY("much", lowmark_cache_readv(file, 0, much, 2));
	SAY("a negative count", lowmark_cache_readv(file, 0, none, -1));
	SAY("no list", lowmark_cache_readv(file, 0, NULL, 1));
	SAY("far out", lowmark_cache_write(file, UINT64_MAX, buffer, 8));
	SAY("too long", lowmark_cache_truncate(file, UINT64_MAX));
	SAY("advice", lowmark_cache_advise(file, 0, 0, 77));
	SAY("behind the end", lowmark_cache_pin(file, 9, &page, &bytes));
	printf("page: %d %d\n", page != NULL, bytes != NULL);
	SAY("no page", lowmark_cache_pin(file, 0, NULL, &bytes));
	SAY("no place for bytes", lowmark_cache_pin(file, 0, &page, NULL));
	SAY("neither", lowmark_cache_pin_write(NULL, 0, &page, &mine));
	SAY("no stats", lowmark_cache_get_stats(cache, NULL));
	SAY("no text", lowmark_cache_openmetrics(cache, NULL));
	SAY("pinned", lowmark_cache_pin_write(file, 0, &page, &mine));
	SAY("busy", lowmark_cache_shutdown(cache, NULL));
	lowmark_cache_unpin(page);
}

// All memory pinned: somebody is told so.
static void all_pinned(struct lowmark_cache *cache)
{
	enum { MOST = 4096 };
	static struct lowmark_cache_page *pages[MOST];
	struct lowmark_cache_file *file;
	const void *bytes;
	int code = 0, n = 0;

	SAY("a large file", lowmark_cache_open_file(cache, "large", &file));
	SAY("extend", lowmark_cache_truncate(file, MOST * 4096ull));
	SAY("at random", lowmark_cache_advise(file, 0, 0, POSIX_FADV_RANDOM));
	while (n < MOST && (code = lowmark_cache_pin(file, n, &pages[n], &bytes)) == 0)
		n++;
	SAY("all pinned", code);
	printf("refused is NULL: %d\n", pages[n] == NULL);
	while (n > 0)
		lowmark_cache_unpin(pages[--n]);
	lowmark_cache_close(file);
}

// A cache that is given back lives as long as its files, and its files as long as their pages.
static void in_any_order(void)
{
	struct lowmark_cache_config config = lowmark_cache_defaults();
	struct lowmark_cache *cache;
	struct lowmark_cache_file *file;
	struct lowmark_cache_page *page;
	struct stat st;
	void *mine;

	config.memory = 4 << 20, config.cpus = 1, config.ring = false;
	SAY("opened", lowmark_cache_open(&config, &cache));
	SAY("its file", lowmark_cache_open_file(cache, "kept", &file));
	lowmark_cache_free(cache);
	SAY("without its cache", lowmark_cache_write(file, 0, "kept", 4));
	SAY("its page", lowmark_cache_pin_write(file, 0, &page, &mine));
	lowmark_cache_close(file);
	memcpy(mine, "KEPT", 4);
	lowmark_cache_unpin(page); // the last of all: the cache ends, and has written it
	printf("written: %d\n", stat("kept", &st) == 0 && st.st_size == 4);
}

int main(void)
{
	struct lowmark_cache_config config = lowmark_cache_defaults();
	struct lowmark_cache *cache;
	struct lowmark_cache_file *file, *other;
	struct lowmark_cache_end end;
	char byte;

	nothing_there();
	config.memory = 4 << 20, config.cpus = 2, config.direct = false, config.ring = false;
	config.tell = tell, config.context = "told";
	SAY("a cache", lowmark_cache_open(&config, &cache));
	SAY("a file", lowmark_cache_open_file(cache, "x", &file));
	SAY("a byte", lowmark_cache_write(file, 0, "x", 1));
	uses(cache, file);
	all_pinned(cache);
	in_any_order();
	SAY("the end", lowmark_cache_shutdown(cache, &end));
	SAY("after it", lowmark_cache_read(file, 0, &byte, 1));
	SAY("synced after it", lowmark_cache_fsync(file));
	SAY("opened after it", lowmark_cache_open_file(cache, "y", &other));
	SAY("once more", lowmark_cache_shutdown(cache, &end));
	lowmark_cache_close(file);
	lowmark_cache_free(cache);
	return 0;
}
