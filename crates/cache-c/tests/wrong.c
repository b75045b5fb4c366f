// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Each line of output is a wrong call: it must return an error that names the mistake, and allocate
// nothing.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "lowmark_cache.h"

// The call comes first, because it sets the message, which is read after it.
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
	struct lowmark_cache_class_stats classes;
	struct lowmark_cache_buffer *buffer = (void *)1;
	struct lowmark_cache_shrinker shrinker = { 0 };
	struct lowmark_cache_registration *registration = (void *)1;
	struct lowmark_cache_recording *recording = (void *)1;
	struct lowmark_cache_recorded recorded = { .hits = 7 };
	SAY("classes of nothing", lowmark_cache_classes(NULL, &classes, 1));
	SAY("class of nothing", lowmark_cache_file_set_class(NULL, 0));
	SAY("buffer of nothing", lowmark_cache_allocate(NULL, 1, 0, &buffer));
	SAY("length of nothing", lowmark_cache_buffer_length(NULL));
	printf("buffer: %d %d\n", buffer != NULL, lowmark_cache_buffer_bytes(NULL) != NULL);
	SAY("shrinker of nothing", lowmark_cache_register_shrinker(NULL, &shrinker, &registration));
	SAY("unregister nothing", lowmark_cache_unregister_shrinker(NULL));
	SAY("record nothing", lowmark_cache_record(NULL, "trace", 1, &recording));
	SAY("recorded of nothing", lowmark_cache_finish_recording(NULL, &recorded));
	SAY("recorded nowhere", lowmark_cache_finish_recording(NULL, NULL));
	printf("handles: %d %d %d\n", registration != NULL, recording != NULL, recorded.hits != 0);
	lowmark_cache_free_buffer(NULL);
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

static void no_such_classes(void)
{
	struct lowmark_cache_config config = lowmark_cache_defaults();
	struct lowmark_cache *cache;

	config.held = 7;
	SAY("held", lowmark_cache_open(&config, &cache));
	config = lowmark_cache_defaults();
	config.classes[1].memory = 1 << 20;
	SAY("above none", lowmark_cache_open(&config, &cache));
	config.classes[0].memory = 1;
	SAY("a small class", lowmark_cache_open(&config, &cache));
	config.classes[0].memory = config.classes[1].memory = UINT64_MAX;
	SAY("large classes", lowmark_cache_open(&config, &cache));
	config.classes[0].memory = config.classes[1].memory = 1 << 20;
	config.classes[1].held = -1;
	SAY("a class held", lowmark_cache_open(&config, &cache));
	config.classes[1].held = LOWMARK_CACHE_ORDINARY;
	config.classes[1].marks.min = 1;
	SAY("marks", lowmark_cache_open(&config, &cache));
	config = lowmark_cache_defaults();
	config.marks.high = UINT64_MAX;
	SAY("high marks", lowmark_cache_open(&config, &cache));
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
	SAY("only created", lowmark_cache_open_file_with(cache, "x", LOWMARK_CACHE_CREATE, &other));
	SAY("unknown flags", lowmark_cache_open_file_with(cache, "x", 16 | LOWMARK_CACHE_READ, &other));
	SAY("missing", lowmark_cache_open_file_with(cache, "missing", LOWMARK_CACHE_READ, &other));
	SAY("exclusive", lowmark_cache_open_file_with(cache, "once",
	                                              LOWMARK_CACHE_WRITE | LOWMARK_CACHE_CREATE |
	                                                      LOWMARK_CACHE_EXCLUSIVE, &other));
	SAY("read by a writer", lowmark_cache_read(other, 0, buffer, 1));
	lowmark_cache_close(other);
	SAY("exclusive again", lowmark_cache_open_file_with(cache, "once",
	                                                    LOWMARK_CACHE_WRITE | LOWMARK_CACHE_CREATE |
	                                                            LOWMARK_CACHE_EXCLUSIVE, &other));
	SAY("opened to read", lowmark_cache_open_file_with(cache, "once", LOWMARK_CACHE_READ, &other));
	SAY("written by a reader", lowmark_cache_write(other, 0, buffer, 1));
	lowmark_cache_close(other);
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

static void memory_and_recordings(struct lowmark_cache *cache, struct lowmark_cache_file *file)
{
	struct lowmark_cache_class_stats classes[2];
	struct lowmark_cache_buffer *buffer = (void *)1;
	struct lowmark_cache_recording *recording, *other = (void *)1;

	SAY("a class", lowmark_cache_classes(cache, classes, 2));
	printf("places: %d %d\n", classes[0].pages == 1024, classes[1].pages == 0);
	SAY("how many classes", lowmark_cache_classes(cache, NULL, 0));
	SAY("no classes", lowmark_cache_classes(cache, NULL, 1));
	SAY("negative classes", lowmark_cache_classes(cache, classes, -1));
	SAY("no such class", lowmark_cache_file_set_class(file, 1));
	SAY("an empty buffer", lowmark_cache_allocate(cache, 0, 0, &buffer));
	SAY("a large buffer", lowmark_cache_allocate(cache, SIZE_MAX, 0, &buffer));
	SAY("a buffer's class", lowmark_cache_allocate(cache, 1, UINT32_MAX, &buffer));
	printf("no buffer: %d\n", buffer == NULL);
	SAY("no place for a buffer", lowmark_cache_allocate(cache, 1, 0, NULL));
	SAY("no trace", lowmark_cache_record(cache, NULL, 1, &recording));
	SAY("no place for a recording", lowmark_cache_record(cache, "trace", 1, NULL));
	SAY("no rate", lowmark_cache_record(cache, "trace", 0, &recording));
	SAY("no number", lowmark_cache_record(cache, "trace", 0.0 / 0.0, &recording));
	SAY("no folder for a trace", lowmark_cache_record(cache, "a/b/c", 1, &recording));
	SAY("a recording", lowmark_cache_record(cache, "/dev/full", 1, &recording));
	SAY("another", lowmark_cache_record(cache, "trace", 1, &other));
	printf("no other: %d\n", other == NULL);
	SAY("recorded", lowmark_cache_write(file, 0, "x", 1));
	SAY("a full device", lowmark_cache_finish_recording(recording, NULL));
}

struct liar {
	struct lowmark_cache *cache;
	struct lowmark_cache_file *file;
	struct lowmark_cache_registration *registration;
	int64_t count, scan;
	atomic_int asked, refused, tries;
};

static int64_t count(void *context)
{
	return ((struct liar *)context)->count;
}

static int64_t scan(void *context, uint64_t objects)
{
	struct liar *liar = context;
	struct lowmark_cache_buffer *buffer;
	struct lowmark_cache_file *file;
	const int answers[] = {
		lowmark_cache_fsync(liar->file),
		lowmark_cache_allocate(liar->cache, 1, 0, &buffer),
		lowmark_cache_open_file(liar->cache, "y", &file),
		lowmark_cache_shutdown(liar->cache, NULL),
		lowmark_cache_unregister_shrinker(liar->registration),
	};
	for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
		liar->tries++;
		liar->refused += answers[i] == -EDEADLK;
	}
	liar->asked += objects > 0;
	return liar->scan;
}

// A shrinker that returns impossible numbers, and makes calls that it may not.
static void lied_to(struct lowmark_cache *cache, struct lowmark_cache_file *large, int64_t n, int64_t freed)
{
	struct liar liar = { cache, large, NULL, n, freed, 0, 0, 0 };
	struct lowmark_cache_shrinker shrinker = { count, scan, &liar, 1, 1 << 24 };
	static char block[1 << 16];
	long long sum = 0;

	SAY("a liar", lowmark_cache_register_shrinker(cache, &shrinker, &liar.registration));
	for (int i = 0; i < 256; i++)
		sum += lowmark_cache_read(large, i * sizeof block, block, sizeof block);
	SAY("unregistered", lowmark_cache_unregister_shrinker(liar.registration));
	printf("lied %d: read %lld, asked %d, refused %d\n", (n > 0) + 2 * (freed > 0), sum, liar.asked > 0,
	       liar.refused == liar.tries);
}

static void shrinkers(struct lowmark_cache *cache)
{
	enum { MOST = 64 };
	struct lowmark_cache_registration *all[MOST + 1];
	struct liar liar = { 0 };
	struct lowmark_cache_shrinker shrinker = { count, scan, &liar, 0, 0 };
	struct lowmark_cache_shrinker no_count = { NULL, scan, &liar, 0, 0 }, no_scan = { count, NULL, &liar, 0, 0 };
	struct lowmark_cache_file *large;
	int code = 0, n = 0;

	SAY("no shrinker", lowmark_cache_register_shrinker(cache, NULL, &all[0]));
	SAY("no count", lowmark_cache_register_shrinker(cache, &no_count, &all[0]));
	SAY("no scan", lowmark_cache_register_shrinker(cache, &no_scan, &all[0]));
	SAY("no place for it", lowmark_cache_register_shrinker(cache, &shrinker, NULL));
	while (n <= MOST && (code = lowmark_cache_register_shrinker(cache, &shrinker, &all[n])) == 0)
		n++;
	SAY("many shrinkers", code);
	printf("shrinkers: %d %d\n", n, all[n] == NULL);
	while (n > 0)
		lowmark_cache_unregister_shrinker(all[--n]);
	SAY("a large file", lowmark_cache_open_file(cache, "large", &large));
	SAY("extend", lowmark_cache_truncate(large, 16 << 20));
	lied_to(cache, large, INT64_MIN, INT64_MAX);
	lied_to(cache, large, INT64_MAX, INT64_MIN);
	lied_to(cache, large, INT64_MAX, INT64_MAX);
	lowmark_cache_close(large);
}

// All memory is pinned: the error must say so.
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

// A freed cache lives as long as its files, and a closed file as long as its pages.
static void in_any_order(void)
{
	struct lowmark_cache_config config = lowmark_cache_defaults();
	struct lowmark_cache *cache;
	struct lowmark_cache_file *file, *other;
	struct lowmark_cache *second;
	struct lowmark_cache_page *page;
	struct stat st;
	void *mine;

	config.memory = 4 << 20, config.cpus = 1, config.ring = false;
	SAY("opened", lowmark_cache_open(&config, &cache));
	SAY("its file", lowmark_cache_open_file(cache, "kept", &file));
	SAY("a second cache", lowmark_cache_open(&config, &second));
	SAY("in two caches", lowmark_cache_open_file(second, "kept", &other));
	lowmark_cache_free(second);
	lowmark_cache_free(cache);
	SAY("without its cache", lowmark_cache_write(file, 0, "kept", 4));
	SAY("its page", lowmark_cache_pin_write(file, 0, &page, &mine));
	lowmark_cache_close(file);
	memcpy(mine, "KEPT", 4);
	lowmark_cache_unpin(page); // the last handle: the cache ends here and writes the page
	printf("written: %d\n", stat("kept", &st) == 0 && st.st_size == 4);
}

// The same for buffers, shrinkers and recordings, which may also be used after the shutdown.
static void last_of_all(void)
{
	struct lowmark_cache_config config = lowmark_cache_defaults();
	struct liar liar = { 0 };
	struct lowmark_cache_shrinker shrinker = { count, scan, &liar, 0, 0 };
	struct lowmark_cache *cache;
	struct lowmark_cache_buffer *buffer, *none;
	struct lowmark_cache_registration *registration;
	struct lowmark_cache_recording *recording;
	struct lowmark_cache_recorded recorded;

	config.memory = 4 << 20, config.cpus = 1, config.ring = false;
	SAY("opened again", lowmark_cache_open(&config, &cache));
	SAY("its buffer", lowmark_cache_allocate(cache, 5000, 0, &buffer));
	SAY("its shrinker", lowmark_cache_register_shrinker(cache, &shrinker, &registration));
	SAY("its recording", lowmark_cache_record(cache, "trace", 0.5, &recording));
	SAY("shut down", lowmark_cache_shutdown(cache, NULL));
	SAY("a late buffer", lowmark_cache_allocate(cache, 1, 0, &none));
	lowmark_cache_free(cache);
	SAY("its length", lowmark_cache_buffer_length(buffer));
	memset(lowmark_cache_buffer_bytes(buffer), 1, 5000);
	SAY("finished", lowmark_cache_finish_recording(recording, &recorded));
	SAY("asked no more", lowmark_cache_unregister_shrinker(registration));
	lowmark_cache_free_buffer(buffer);
	printf("rate: %g\n", recorded.rate);
}

int main(void)
{
	struct lowmark_cache_config config = lowmark_cache_defaults();
	struct lowmark_cache *cache;
	struct lowmark_cache_file *file, *other;
	struct lowmark_cache_end end;
	char byte;

	nothing_there();
	no_such_classes();
	config.memory = 4 << 20, config.cpus = 2, config.direct = false, config.ring = false;
	config.tell = tell, config.context = "told";
	SAY("a cache", lowmark_cache_open(&config, &cache));
	SAY("a file", lowmark_cache_open_file(cache, "x", &file));
	SAY("a byte", lowmark_cache_write(file, 0, "x", 1));
	uses(cache, file);
	memory_and_recordings(cache, file);
	shrinkers(cache);
	all_pinned(cache);
	in_any_order();
	last_of_all();
	SAY("the end", lowmark_cache_shutdown(cache, &end));
	SAY("after it", lowmark_cache_read(file, 0, &byte, 1));
	SAY("synced after it", lowmark_cache_fsync(file));
	SAY("opened after it", lowmark_cache_open_file(cache, "y", &other));
	SAY("once more", lowmark_cache_shutdown(cache, &end));
	lowmark_cache_close(file);
	lowmark_cache_free(cache);
	return 0;
}
