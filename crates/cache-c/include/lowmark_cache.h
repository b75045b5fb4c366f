// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef LOWMARK_CACHE_H
#define LOWMARK_CACHE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/uio.h>

// The live cache for C programs: docs/cache-c.md tells of it, examples/first.c shows it.
//
// A cache is pages of memory over ordinary files, with a hard bound. Whoever opens a cache or a file, or pins a page,
// owns the handle and gives it back once: to `lowmark_cache_free`, `lowmark_cache_close`, `lowmark_cache_unpin`; so with
// buffers, registrations of shrinkers, and recordings. A page keeps its file open; a file, a buffer, a registration and
// a recording keep their cache: handles may be given back in any order, and the cache ends with the last of them.
//
// Calls may come from any thread, several on one handle at once; only who gives a handle back must be the last to use
// it, and a page pinned by one thread may be let go by another.
//
// A call gives 0, or an amount, if it did what it should. What is below 0 is an error: the negative of an errno, or one
// of `LOWMARK_CACHE_LOST` and the others below; `lowmark_cache_message` has it in words. Besides what the system
// says of a file (-ENOSPC, -EIO, -EACCES...) there are
//
//   -EFAULT     a pointer is NULL that may not be
//   -EINVAL     something given is wrong; the message says what would be accepted
//   -ENXIO      the file has no such page: it lies behind the end
//   -EFBIG      the range ends beyond 16 TiB
//   -ENODEV     no regular file, or one of a filesystem that makes files up
//   -ENOMEM     nothing could be reclaimed
//   -EMFILE     as many files are open as the cache was opened for
//   -EAGAIN     as many threads use the cache as it was opened for
//   -ESHUTDOWN  the cache was shut down
//   -EBUSY      pages are pinned for writing, so the cache cannot be shut down
//   -ENOSPC     64 shrinkers are registered
//   -EDEADLK    a shrinker may not do so while it is asked
//
// No call ends the process, prints, or takes a signal, but for what `tell` is not there to hear.

// Data that was written since the last sync that succeeded may be lost: write it again.
#define LOWMARK_CACHE_LOST -5001

// Earlier data could not be written: writes are refused until a sync of that data succeeds.
#define LOWMARK_CACHE_REFUSED -5002

// There is no memory because pages are pinned or in buffers: let some go.
#define LOWMARK_CACHE_PINNED -5003

// A bug of this library. Nothing is known of the cache any more: give its handles back.
#define LOWMARK_CACHE_BUG -5004

// Memory that is held as that of any program.
#define LOWMARK_CACHE_ORDINARY 0

// Memory that is there from the beginning and never swapped out (mlock(2)); the process needs RLIMIT_MEMLOCK for it.
#define LOWMARK_CACHE_LOCKED 1

// Memory in huge pages where the system has them (MADV_HUGEPAGE).
#define LOWMARK_CACHE_HUGE_PAGES 2

// Memory of a cache's budget that holds no file's data.
typedef struct lowmark_cache_buffer lowmark_cache_buffer;

// A page cache over files, with threads of its own.
typedef struct lowmark_cache lowmark_cache;

// An open file of a cache.
typedef struct lowmark_cache_file lowmark_cache_file;

// A page of a file that stays in memory until it is let go.
typedef struct lowmark_cache_page lowmark_cache_page;

// A recording that is under way.
typedef struct lowmark_cache_recording lowmark_cache_recording;

// A shrinker that is registered.
typedef struct lowmark_cache_registration lowmark_cache_registration;

// Watermarks of a class, in bytes, ascending, the highest at most half of the class: below `low` kswapd is woken and
// works until `high` is free, and below `min` whoever needs a page reclaims for himself. All zero: its part of the
// whole cache's by size, which is the kernel's formula.
typedef struct lowmark_cache_marks {
  // Bytes that only those who write or free pages may use.
  uint64_t min;
  // Bytes below which kswapd is woken.
  uint64_t low;
  // Bytes to which it frees.
  uint64_t high;
} lowmark_cache_marks;

// A class of memory above the general one.
typedef struct lowmark_cache_class {
  // Its bytes, a part of the cache's memory; 1 MiB at least. 0: there is no such class.
  uint64_t memory;
  // Its watermarks.
  struct lowmark_cache_marks marks;
  // Pages of files of higher classes leave one part in so many of the memory of those classes free here
  // (lowmem_reserve_ratio); 0: they leave nothing.
  uint32_t reserve_ratio;
  // How the system holds it: `LOWMARK_CACHE_ORDINARY`, `LOWMARK_CACHE_LOCKED` or `LOWMARK_CACHE_HUGE_PAGES`.
  int held;
} lowmark_cache_class;

// What a cache is opened for; `lowmark_cache_defaults` gives one to change.
typedef struct lowmark_cache_config {
  // Bytes of memory for pages: 32 KiB to what the machine has. Never exceeded; the tables beside them take up to 2 %
  // more, and what any cache has about 1 MiB.
  uint64_t memory;
  // Classes of memory above the general one, which are parts of `memory`: class 1 and class 2, as far as they have
  // memory. The general class, which has the rest, is class 0.
  struct lowmark_cache_class classes[2];
  // Watermarks of the general class.
  struct lowmark_cache_marks marks;
  // Pages of files of higher classes leave one part in so many of the memory of those classes free in the general
  // one (lowmem_reserve_ratio); 0: they leave nothing.
  uint32_t reserve_ratio;
  // How the system holds the general class: `LOWMARK_CACHE_ORDINARY`, `LOWMARK_CACHE_LOCKED` or
  // `LOWMARK_CACHE_HUGE_PAGES`.
  int held;
  // CPU slots, 1 to 64 and at most one for each 512 KiB of memory: how many threads are inside the engine at once.
  uint32_t cpus;
  // Threads that may use the cache at the same time, 1 to 65536. A thread counts from its first call to its end.
  uint32_t max_threads;
  // Files that may be open at the same time, 1 to 16777215. Closed ones stay cached, each with a descriptor of the
  // process, as long as their places are not needed.
  uint32_t max_files;
  // Percent of memory at which background writeback starts.
  uint32_t dirty_background_ratio;
  // Percent of memory at which writers are held back.
  uint32_t dirty_ratio;
  // How the engine behaves, by the name of a preset ("linux-6.12"); NULL: as Linux 3.16.
  const char *policy;
  // Whether files are read and written past the system's page cache (O_DIRECT) where their filesystem can do that.
  bool direct;
  // Whether transfers that nobody waits for go by a ring (io_uring) where the system has one; else by threads.
  bool ring;
  // Is told in words of what one may want to know (that there is no io_uring), and of data that is lost because a
  // cache ended without `lowmark_cache_shutdown`; on the thread that opens the cache, or ends it. NULL: standard error.
  void (*tell)(void *context, const char *message);
  // What `tell` is given; it outlives the cache.
  void *context;
} lowmark_cache_config;

// How a cache ended. All zero: everything that it took is in its files, and confirmed by their devices.
typedef struct lowmark_cache_end {
  // Pages whose data did not get into their files since the cache began: it is lost.
  uint64_t lost_pages;
  // Files whose last sync failed.
  uint64_t failed_files;
} lowmark_cache_end;

// What a cache holds and did.
typedef struct lowmark_cache_stats {
  // Pages of memory, 4096 bytes each.
  uint64_t pages;
  // Free pages, those on lists of one CPU slot not counted.
  uint64_t free_pages;
  // Pages that hold file data.
  uint64_t cached_pages;
  // Pages newer than their file.
  uint64_t dirty_pages;
  // Pages being written.
  uint64_t writeback_pages;
  // Pages of buffers.
  uint64_t buffer_pages;
  // Pages evicted so far, by anyone.
  uint64_t evicted_pages;
  // Pages evicted by kswapd.
  uint64_t evicted_by_kswapd;
  // Times a thread had to reclaim for itself.
  uint64_t direct_reclaims;
  // Bytes read from files.
  uint64_t read_bytes;
  // Bytes written to files.
  uint64_t written_bytes;
  // Pages whose write failed: they are kept, and the next sync of their file tries again.
  uint64_t kept_pages;
  // Pages whose write failed and for which there was no room: their data is lost.
  uint64_t lost_pages;
} lowmark_cache_stats;

// What a class of memory holds.
typedef struct lowmark_cache_class_stats {
  // Pages of it.
  uint64_t pages;
  // Free pages, those on lists of one CPU slot not counted.
  uint64_t free_pages;
  // Pages that hold file data.
  uint64_t cached_pages;
  // Pages newer than their file.
  uint64_t dirty_pages;
  // Pages evicted so far.
  uint64_t evicted_pages;
  // The watermarks as they are now: pages that only those who write or free pages may use.
  uint64_t min_pages;
  // Pages below which kswapd is woken.
  uint64_t low_pages;
  // Pages to which it frees.
  uint64_t high_pages;
} lowmark_cache_class_stats;

// What a recording has of a cache's accesses to pages.
typedef struct lowmark_cache_recorded {
  // All accesses to pages, of the sample or not.
  uint64_t accesses;
  // Accesses of the sample that found their page in the cache.
  uint64_t hits;
  // Accesses of the sample that did not.
  uint64_t misses;
  // Of both together those that were not written, because they came faster than the file took them, or could not
  // be (`error`).
  uint64_t dropped;
  // The share of the pages that is in the sample, up to 1.
  double rate;
  // Misses by accesses, of a sample an estimate; 0 if there were none.
  double miss_ratio;
  // Why the file could not be written, from where on nothing was: the negative of an errno; 0: it was.
  int error;
} lowmark_cache_recorded;

// A program's cache of its own objects (decoded blocks, results), which could make them again: when memory is short
// it is asked for some back, for the share that is taken of files' pages as well.
//
// `count` and `scan` are called by whoever reclaims: a thread of the cache's, or one of the program's in the middle of
// a call, several at the same time. So they
//
// - must not wait for a lock that a thread which calls the cache may hold: pthread_mutex_trylock, and if that fails 0
//   objects, or "can't go on now";
// - may free buffers (`lowmark_cache_free_buffer`), and give back nothing else: no file, page, cache or recording;
// - may look at counters and sizes; what needs more of the cache, opens a file, shuts down or unregisters is
//   -EDEADLK;
// - must return, and not by longjmp or an exception.
//
// What they answer is taken for what it can mean: no number ends the process or confuses the cache.
typedef struct lowmark_cache_shrinker {
  // How many objects could be freed now; below 0 is none.
  int64_t (*count)(void *context);
  // Looks at so many objects and frees those that it can; gives how many they were. Below 0: it can't go on now,
  // ask another time.
  int64_t (*scan)(void *context, uint64_t objects);
  // What both are given; it outlives the registration.
  void *context;
  // What making an object again costs, in seeks of a disk: twice as much, and half as many are asked for. 0: the
  // kernel's 2.
  uint32_t seeks;
  // Objects that it is asked for at a time; less than that is put off until enough has come together. 0: the
  // kernel's 128.
  uint32_t batch;
} lowmark_cache_shrinker;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of this library, `0.1.0`.
const char *lowmark_cache_version(void);

// What a cache is opened for if nobody says otherwise: 64 MiB.
struct lowmark_cache_config lowmark_cache_defaults(void);

// Opens a cache and starts its threads. `config` may be NULL: the defaults. `*cache` is the caller's, to be given back
// to `lowmark_cache_free`, and NULL if it fails.
//
// # Safety
// `config` is one or NULL, its `policy` ends with a zero or is NULL, `cache` takes a pointer.
int lowmark_cache_open(const struct lowmark_cache_config *config,
                       struct lowmark_cache **cache);

// Lets calls end, refuses further ones (-ESHUTDOWN), writes everything dirty and stops the threads. `*end` says what
// is lost; `end` may be NULL, and then a loss is `LOWMARK_CACHE_LOST`. The handles remain to be given back; bytes of
// pages that are pinned for reading may still be read. A second call has nothing left to do.
//
// -EBUSY: pages are pinned for writing, and nothing has happened.
//
// # Safety
// `cache` is one or NULL; `end` takes one or is NULL.
int lowmark_cache_shutdown(const struct lowmark_cache *cache,
                           struct lowmark_cache_end *end);

// Gives a cache back; NULL is nothing. It ends when the last of its files is closed, the last of its pages let go, and
// its buffers, shrinkers and recordings given back: then as by `lowmark_cache_shutdown`, and of a loss `tell` is told.
//
// # Safety
// It came from `lowmark_cache_open`, was not given back, and nobody uses it any more.
void lowmark_cache_free(struct lowmark_cache *cache);

// What the cache holds and did, all zero if that is not known because `cache` is NULL.
//
// # Safety
// `cache` is one or NULL; `stats` takes one.
int lowmark_cache_get_stats(const struct lowmark_cache *cache, struct lowmark_cache_stats *stats);

// The counters as a page of OpenMetrics 1.0, for whoever serves it. `*text` is the caller's, to be given back to
// `lowmark_cache_free_text`, and NULL if it fails.
//
// # Safety
// `cache` is one or NULL; `text` takes a pointer.
int lowmark_cache_openmetrics(const struct lowmark_cache *cache,
                              char **text);

// Gives a text back; NULL is nothing.
//
// # Safety
// It came from `lowmark_cache_openmetrics` and was not given back.
void lowmark_cache_free_text(char *text);

// Opens a regular file of the cache for reading and writing, and creates it if it is missing. Nothing but this cache
// may change its contents meanwhile. `*file` is the caller's, to be given back to `lowmark_cache_close`, and NULL if it
// fails.
//
// # Safety
// `cache` is one or NULL, `name` ends with a zero or is NULL, `file` takes a pointer.
int lowmark_cache_open_file(const struct lowmark_cache *cache,
                            const char *name,
                            struct lowmark_cache_file **file);

// What went wrong in the last call of this thread that failed, in words; an empty text if none did. It stays as it
// is until the next call of this thread that fails.
const char *lowmark_cache_message(void);

// Memory of the cache's budget for the program itself: 1 to 32768 bytes, zero at first, of a class of memory (0: the
// general one) or those below it. It counts in whole blocks of 1, 2, 4 or 8 pages, is never written anywhere, and
// never taken back but by `lowmark_cache_free_buffer`: who could make again what is in it registers a shrinker.
// `*buffer` is the caller's, and NULL if it fails. A buffer keeps its cache, and may be used when that was shut down.
//
// # Safety
// `cache` is one or NULL; `buffer` takes a pointer.
int lowmark_cache_allocate(const struct lowmark_cache *cache,
                           size_t length,
                           uint32_t number,
                           struct lowmark_cache_buffer **buffer);

// Where a buffer's bytes are, at the beginning of a page, as long as it is not freed; NULL if `buffer` is.
//
// # Safety
// `buffer` is one or NULL.
void *lowmark_cache_buffer_bytes(const struct lowmark_cache_buffer *buffer);

// How many bytes a buffer has: as many as were asked for.
//
// # Safety
// `buffer` is one or NULL.
int64_t lowmark_cache_buffer_length(const struct lowmark_cache_buffer *buffer);

// Gives a buffer back; NULL is nothing. A shrinker may do so while it is asked.
//
// # Safety
// It came from `lowmark_cache_allocate`, was not given back, and nobody uses its bytes any more.
void lowmark_cache_free_buffer(struct lowmark_cache_buffer *buffer);

// What each class of memory holds, the general one first: of up to `count` classes, into as many places; a place for
// which there is no class is zero. Gives how many classes there are, 1 to 3.
//
// # Safety
// `cache` is one or NULL; `stats` has `count` places.
int64_t lowmark_cache_classes(const struct lowmark_cache *cache,
                              struct lowmark_cache_class_stats *stats,
                              int count);

// Closes a file; NULL is nothing. What is dirty stays cached and is written later. Pages of it that are pinned stay
// pinned.
//
// # Safety
// It came from `lowmark_cache_open_file`, was not given back, and nobody uses it any more.
void lowmark_cache_close(struct lowmark_cache_file *file);

// Reads up to `length` bytes at `position` into `buffer`; gives how many the file had there, 0 behind its end.
//
// # Safety
// `file` is one or NULL; `buffer` has room for `length` bytes.
int64_t lowmark_cache_read(const struct lowmark_cache_file *file,
                           uint64_t position,
                           void *buffer,
                           size_t length);

// As `lowmark_cache_read`, into several buffers one after the other.
//
// # Safety
// `file` is one or NULL; there are `count` buffers with the room that they say.
int64_t lowmark_cache_readv(const struct lowmark_cache_file *file,
                            uint64_t position,
                            const struct iovec *buffers,
                            int count);

// Writes `length` bytes at `position` and gives `length`; the file grows if it must. The thread is held back while too
// much is dirty. After an error a part may be written.
//
// # Safety
// `file` is one or NULL; `buffer` has `length` bytes.
int64_t lowmark_cache_write(const struct lowmark_cache_file *file,
                            uint64_t position,
                            const void *buffer,
                            size_t length);

// As `lowmark_cache_write`, of several buffers one after the other; gives the sum of their lengths.
//
// # Safety
// `file` is one or NULL; there are `count` buffers with the bytes that they say.
int64_t lowmark_cache_writev(const struct lowmark_cache_file *file,
                             uint64_t position,
                             const struct iovec *buffers,
                             int count);

// Says how a range will be used, in the words of posix_fadvise(2): POSIX_FADV_NORMAL, _SEQUENTIAL and _RANDOM hold for
// the handle, whatever the range; _WILLNEED and _DONTNEED for the range, where a length of 0 means up to the end.
//
// # Safety
// `file` is one or NULL.
int lowmark_cache_advise(const struct lowmark_cache_file *file,
                         uint64_t position,
                         uint64_t length,
                         int advice);

// Has what is missing of a range read, without a wait where that can be; a length of 0 means up to the end.
//
// # Safety
// `file` is one or NULL.
int lowmark_cache_prefetch(const struct lowmark_cache_file *file,
                           uint64_t position,
                           uint64_t length);

// Lets the clean pages of a range go that nobody holds; a length of 0 means up to the end.
//
// # Safety
// `file` is one or NULL.
int lowmark_cache_drop(const struct lowmark_cache_file *file, uint64_t position, uint64_t length);

// Hands what is dirty of a range to the system, and waits for that; a length of 0 means up to the end. The device need
// not have it then: that is `lowmark_cache_fsync`'s. Who has a page of the range pinned for writing waits for ever.
//
// # Safety
// `file` is one or NULL.
int lowmark_cache_flush(const struct lowmark_cache_file *file,
                        uint64_t position,
                        uint64_t length);

// Writes what is dirty, and what could not be written before, and waits until the device has it. Each handle is told
// of an error once: after -EIO and the like the data is still cached and the next call tries again; after
// `LOWMARK_CACHE_LOST` what was written since the last call that gave 0 must be written again. Who has a page of the
// file pinned for writing waits for ever.
//
// # Safety
// `file` is one or NULL.
int lowmark_cache_fsync(const struct lowmark_cache_file *file);

// Has the pages of the file that come in from now on taken from a class of memory, or from those below it if that has
// none to spare; at first that is 0, the general one. It holds for all handles of the file. Pages that are cached stay
// where they are.
//
// # Safety
// `file` is one or NULL.
int lowmark_cache_file_set_class(const struct lowmark_cache_file *file,
                                 uint32_t number);

// Cuts or extends the file to so many bytes. Who has a page behind the new end pinned waits for ever.
//
// # Safety
// `file` is one or NULL.
int lowmark_cache_truncate(const struct lowmark_cache_file *file,
                           uint64_t length);

// The file's length in bytes.
//
// # Safety
// `file` is one or NULL.
int64_t lowmark_cache_size(const struct lowmark_cache_file *file);

// Pins a page for reading: its 4096 bytes are at `*bytes` and stay as they are until `lowmark_cache_unpin`; what lies
// behind the file's end is zero. Pages count from 0. A page may be pinned more than once. `*page` is the caller's, and
// NULL if it fails.
//
// Who writes the page, or cuts the file in front of it, waits until it is let go; a thread that does so with a page of
// its own waits for ever.
//
// # Safety
// `file` is one or NULL; `page` and `bytes` take a pointer. Nobody writes the bytes, and nobody reads them once the
// page is let go.
int lowmark_cache_pin(const struct lowmark_cache_file *file,
                      uint32_t number,
                      struct lowmark_cache_page **page,
                      const void **bytes);

// Pins a page for writing: nobody else reads, writes or syncs it until `lowmark_cache_unpin`. It is dirty from now on;
// the thread is held back before if too much is. What is written behind the file's end is zero afterwards; a file grows
// by `lowmark_cache_write` and `lowmark_cache_truncate` only. `*page` is the caller's, and NULL if it fails.
//
// A thread that pins, reads, writes or syncs a page that it has pinned for writing waits for ever.
//
// # Safety
// `file` is one or NULL; `page` and `bytes` take a pointer. Nobody uses the bytes once the page is let go.
int lowmark_cache_pin_write(const struct lowmark_cache_file *file,
                            uint32_t number,
                            struct lowmark_cache_page **page,
                            void **bytes);

// Lets a page go; NULL is nothing.
//
// # Safety
// It came from `lowmark_cache_pin` or `lowmark_cache_pin_write`, was not given back, and nobody uses its bytes any more.
void lowmark_cache_unpin(struct lowmark_cache_page *page);

// Records every access to a page from now on as a trace that `lowmark mrc` reads, or those to a share of the pages by
// hash (`rate`, above 0 and up to 1), into a file that is made anew. There is one recording of a cache at a time.
// `*recording` is the caller's, to be given back to `lowmark_cache_finish_recording`, and NULL if it fails; it keeps
// the cache.
//
// # Safety
// `cache` is one or NULL, `name` ends with a zero or is NULL, `recording` takes a pointer.
int lowmark_cache_record(const struct lowmark_cache *cache,
                         const char *name,
                         double rate,
                         struct lowmark_cache_recording **recording);

// Ends a recording and gives it back, whatever is answered. Its file is written then, though not synced. `*recorded`
// says what it has; `recorded` may be NULL, and then it is an error if the file could not be written.
//
// # Safety
// `recording` is NULL or came from `lowmark_cache_record`, was not given back, and nobody uses it any more; `recorded`
// takes one or is NULL.
int lowmark_cache_finish_recording(struct lowmark_cache_recording *recording,
                                   struct lowmark_cache_recorded *recorded);

// Has a shrinker asked when memory is short, until `lowmark_cache_unregister_shrinker`; up to 64 of a cache. What is at
// `shrinker` is copied. `*registration` is the caller's, and NULL if it fails; it keeps the cache.
//
// # Safety
// `cache` is one or NULL, `shrinker` is one or NULL whose functions may be called as it says; `registration` takes a
// pointer.
int lowmark_cache_register_shrinker(const struct lowmark_cache *cache,
                                    const struct lowmark_cache_shrinker *shrinker,
                                    struct lowmark_cache_registration **registration);

// Has a shrinker asked no more, and gives its registration back; NULL is nothing. It waits for those that are in
// `count` or `scan`: afterwards nobody is, and the context is the program's again. Who holds a lock for which they
// wait waits for ever.
//
// -EDEADLK: a shrinker has called it, and nothing has happened.
//
// # Safety
// It came from `lowmark_cache_register_shrinker`, was not given back, and nobody uses it any more.
int lowmark_cache_unregister_shrinker(struct lowmark_cache_registration *registration);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LOWMARK_CACHE_H */
