// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Uses every call on a cache of 8 MiB over a file of 32 MiB; docs/cache-c.md shows how to build it.
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lowmark_cache.h"

enum { PAGE = 4096, PAGES = 8192, INDEX = 64, MOST = 800, RESULTS = 64 };

static void want(long ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s: %s\n", what, lowmark_cache_message());
	exit(1);
}

#define WANT(call) want((call) == 0, #call)

static void told(void *context, const char *message)
{
	++*(int *)context;
	fprintf(stderr, "the cache says: %s\n", message);
}

static void *let_go(void *page)
{
	lowmark_cache_unpin(page); // by another thread than the one that pinned it
	return NULL;
}

static void write_it(struct lowmark_cache_file *file)
{
	static char block[16 * PAGE];
	for (uint64_t i = 0; i < PAGES; i += 16) {
		for (int k = 0; k < 16; k++)
			memset(block + k * PAGE, 'a' + (int)((i + k) % 26), PAGE);
		want(lowmark_cache_write(file, i * PAGE, block, sizeof block) == sizeof block, "write");
	}
	char one[] = "one", two[] = "two";
	struct iovec out[] = { { one, 3 }, { two, 3 } };
	want(lowmark_cache_writev(file, PAGE - 3, out, 2) == 6, "writev");
	WANT(lowmark_cache_flush(file, 0, 2 * PAGE));
	WANT(lowmark_cache_fsync(file));
	want(lowmark_cache_size(file) == PAGES * PAGE, "size");
}

static void read_it(struct lowmark_cache_file *file)
{
	char a[3], b[4], buffer[PAGE];
	struct iovec in[] = { { a, sizeof a }, { b, sizeof b } };
	want(lowmark_cache_readv(file, PAGE - 3, in, 2) == 7, "readv");
	want(!memcmp(a, "one", 3) && !memcmp(b, "twob", 4), "what readv gave");
	WANT(lowmark_cache_advise(file, 0, 0, POSIX_FADV_SEQUENTIAL));
	for (uint64_t i = 2; i < PAGES; i++) {
		want(lowmark_cache_read(file, i * PAGE, buffer, PAGE) == PAGE, "read");
		want(buffer[0] == 'a' + (int)(i % 26) && buffer[PAGE - 1] == buffer[0], "what read gave");
	}
	want(lowmark_cache_read(file, PAGES * PAGE, buffer, PAGE) == 0, "read behind the end");
	WANT(lowmark_cache_prefetch(file, 0, 16 * PAGE));
	WANT(lowmark_cache_drop(file, 16 * PAGE, 0));
}

static void pin_it(struct lowmark_cache_file *file)
{
	struct lowmark_cache_page *page, *again;
	const void *bytes, *same;
	void *mine;
	pthread_t other;

	WANT(lowmark_cache_pin(file, 3, &page, &bytes));
	WANT(lowmark_cache_pin(file, 3, &again, &same));
	want(bytes == same && *(const char *)bytes == 'd', "a page is where it is");
	lowmark_cache_unpin(again);
	lowmark_cache_unpin(page);
	WANT(lowmark_cache_pin_write(file, 3, &page, &mine));
	memset(mine, 'X', PAGE);
	want(pthread_create(&other, NULL, let_go, page) == 0, "a thread");
	pthread_join(other, NULL);
	char x;
	want(lowmark_cache_read(file, 4 * PAGE - 1, &x, 1) == 1 && x == 'X', "what was written");
	WANT(lowmark_cache_truncate(file, 10 * PAGE + 1));
	want(lowmark_cache_size(file) == 10 * PAGE + 1, "size");
}

// A file of class 1: accesses to other files evict no page of it.
static void set_apart(struct lowmark_cache *cache)
{
	static const char block[INDEX * PAGE];
	struct lowmark_cache_file *index;

	WANT(lowmark_cache_open_file(cache, "index", &index));
	WANT(lowmark_cache_file_set_class(index, 1));
	want(lowmark_cache_write(index, 0, block, sizeof block) == sizeof block, "write");
	WANT(lowmark_cache_fsync(index));
	lowmark_cache_close(index);
}

static void show_classes(struct lowmark_cache *cache)
{
	struct lowmark_cache_class_stats of[3];
	want(lowmark_cache_classes(cache, of, 3) == 2 && of[2].pages == 0, "two classes");
	printf("class 1: %" PRIu64 " pages, low at %" PRIu64 ", %s of the index there\n", of[1].pages,
	       of[1].low_pages, of[1].cached_pages > INDEX / 2 ? "most" : "little");
}

// Objects that the program could make again: buffers with 64 results each.
struct results {
	pthread_mutex_t lock;
	struct lowmark_cache_buffer *held[MOST];
	int n;
	int64_t freed;
};

static int64_t count(void *context)
{
	struct results *r = context;
	if (pthread_mutex_trylock(&r->lock))
		return 0;
	int64_t n = (int64_t)r->n * RESULTS;
	pthread_mutex_unlock(&r->lock);
	return n;
}

static int64_t scan(void *context, uint64_t objects)
{
	struct results *r = context;
	int64_t freed = 0;
	if (pthread_mutex_trylock(&r->lock))
		return -1; // a thread that waits for us may hold the lock: try another time
	for (; r->n > 0 && (uint64_t)freed < objects; freed += RESULTS)
		lowmark_cache_free_buffer(r->held[--r->n]);
	r->freed += freed;
	pthread_mutex_unlock(&r->lock);
	return freed;
}

// Results give way to pages of a file that is larger than memory; the accesses meanwhile are
// recorded.
static void give_way(struct lowmark_cache *cache, struct lowmark_cache_file *file)
{
	static struct results results = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct lowmark_cache_shrinker shrinker = { count, scan, &results, 2, 16 };
	struct lowmark_cache_registration *registration;
	struct lowmark_cache_recording *recording;
	struct lowmark_cache_recorded recorded;

	WANT(lowmark_cache_register_shrinker(cache, &shrinker, &registration));
	for (int i = 0; i < MOST; i++) {
		struct lowmark_cache_buffer *buffer;
		// Without the lock: an allocation may reclaim, and so ask this program for its results.
		WANT(lowmark_cache_allocate(cache, PAGE, 0, &buffer));
		memset(lowmark_cache_buffer_bytes(buffer), 'r', lowmark_cache_buffer_length(buffer));
		pthread_mutex_lock(&results.lock);
		results.held[results.n++] = buffer;
		pthread_mutex_unlock(&results.lock);
	}
	WANT(lowmark_cache_record(cache, "trace", 1, &recording));
	read_it(file);
	WANT(lowmark_cache_finish_recording(recording, &recorded));
	WANT(lowmark_cache_unregister_shrinker(registration));
	want(recorded.error == 0 && recorded.hits + recorded.misses == recorded.accesses, "a recording");
	printf("recorded: %s accesses, %s\n", recorded.accesses > PAGES - 2 ? "all" : "few",
	       recorded.miss_ratio > 0 && recorded.miss_ratio < 1 ? "some missed" : "?");
	printf("results: %s freed, those that are left: %s\n", results.freed > 0 ? "some" : "none",
	       results.n == 0 || *(char *)lowmark_cache_buffer_bytes(results.held[0]) == 'r' ? "as they were" : "?");
	while (results.n > 0)
		lowmark_cache_free_buffer(results.held[--results.n]);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "data";
	struct lowmark_cache_config config = lowmark_cache_defaults();
	struct lowmark_cache *cache;
	struct lowmark_cache_file *file, *twin;
	struct lowmark_cache_page *page;
	struct lowmark_cache_stats stats;
	struct lowmark_cache_end end;
	const void *bytes;
	char *text;
	int notices = 0;

	config.memory = 8 << 20;
	config.classes[0].memory = 1 << 20;
	config.classes[0].marks = (struct lowmark_cache_marks){ 16 << 10, 32 << 10, 64 << 10 };
	config.classes[0].held = LOWMARK_CACHE_HUGE_PAGES;
	config.cpus = 2;
	config.policy = "linux-6.12";
	config.tell = told;
	config.context = &notices;
	config.ring = argc > 2;
	WANT(lowmark_cache_open(&config, &cache));
	WANT(lowmark_cache_open_file(cache, name, &file));
	write_it(file);
	set_apart(cache);
	give_way(cache, file);
	show_classes(cache);
	pin_it(file);
	WANT(lowmark_cache_get_stats(cache, &stats));
	printf("%" PRIu64 " pages, %d of them in the file's cache, %s evicted\n", stats.pages,
	       stats.cached_pages > 0, stats.evicted_pages > PAGES / 2 ? "many" : "few");
	WANT(lowmark_cache_openmetrics(cache, &text));
	printf("%.*s\n", (int)strcspn(text, "\n"), text);
	lowmark_cache_free_text(text);

	// All handles of a file share its pages. A pinned page may be read after the shutdown.
	WANT(lowmark_cache_open_file_with(cache, name, LOWMARK_CACHE_READ, &twin));
	lowmark_cache_close(file);
	WANT(lowmark_cache_pin(twin, 0, &page, &bytes));
	WANT(lowmark_cache_shutdown(cache, &end));
	printf("lost: %" PRIu64 " pages, %" PRIu64 " files\n", end.lost_pages, end.failed_files);
	lowmark_cache_free(cache);
	lowmark_cache_close(twin);
	want(!memcmp((const char *)bytes + PAGE - 3, "one", 3), "a page that outlives all");
	lowmark_cache_unpin(page);
	printf("version %s, notices %d\n", lowmark_cache_version(), notices);
	return 0;
}
