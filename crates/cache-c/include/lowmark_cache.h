// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef LOWMARK_CACHE_H
#define LOWMARK_CACHE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/uio.h>

// The live cache for C programs: docs/cache-c.md describes it, examples/first.c shows it in use.
//
// A cache is pages of memory over ordinary files, with a hard bound. A program that opens a cache
// or a file, or pins a page, owns the handle and frees it once: with `lowmark_cache_free`,
// `lowmark_cache_close`, `lowmark_cache_unpin`; the same holds for buffers, registrations of
// shrinkers, and recordings. A page keeps its file open; a file, a buffer, a registration and a
// recording keep their cache in existence: handles may be freed in any order, and the cache ends
// with the last of them.
//
// Calls may come from any thread, several on one handle at once; only the call that frees a handle
// must be the last to use it. A page pinned by one thread may be unpinned by another.
//
// A call returns 0, or an amount, if it succeeds. A negative result is an error: the negative of an
// errno, or `LOWMARK_CACHE_LOST` or another of the codes below; `lowmark_cache_message` returns it
// in words. Besides the system's errors on a file (-ENOSPC, -EIO, -EACCES...) there are
//
//   -EFAULT     a pointer is NULL that must not be
//   -EINVAL     an argument is wrong; the message says what would be accepted
//   -ENXIO      the file has no such page: it lies behind the end
//   -EFBIG      the range ends beyond 16 TiB
//   -ENODEV     not a regular file, or one on a filesystem like procfs that generates contents
//   -ENOMEM     nothing could be reclaimed
//   -EMFILE     `max_files` files are open
//   -EAGAIN     `max_threads` threads use the cache
//   -ESHUTDOWN  the cache was shut down
//   -EBUSY      pages are pinned for writing, so the cache cannot be shut down; or another cache,
//               of this process or of another, has the file open
//   -EBADF      the file was not opened for reading, or not for writing
//   -ECHILD     the process is a child, by fork(2), of the one that opened the cache
//   -ENOSPC     64 shrinkers are registered
//   -EDEADLK    a shrinker may not make this call while it is called
//
// No call ends the process, prints, or handles a signal; only messages for which there is no `tell`
// are printed.

// `flags`: the file is read.
#define LOWMARK_CACHE_READ 1

// `flags`: the file is written. A file that is only read is opened for reading only.
#define LOWMARK_CACHE_WRITE 2

// `flags`: the file is created if it is missing; only with `LOWMARK_CACHE_WRITE`.
#define LOWMARK_CACHE_CREATE 4

// `flags`: the file must be missing (-EEXIST); only with `LOWMARK_CACHE_CREATE`.
#define LOWMARK_CACHE_EXCLUSIVE 8

// Data that was written since the last sync that succeeded may be lost: write it again.
#define LOWMARK_CACHE_LOST -5001

// Earlier data could not be written: writes are refused until a sync of that data succeeds.
#define LOWMARK_CACHE_REFUSED -5002

// There is no memory because pages are pinned or used by buffers: unpin or free some.
#define LOWMARK_CACHE_PINNED -5003

// A bug of this library. The state of the cache is unknown: free its handles.
#define LOWMARK_CACHE_BUG -5004

// `held`: memory like that of any program, allocated when first touched.
#define LOWMARK_CACHE_ORDINARY 0

// `held`: memory allocated at once and never swapped out (mlock(2)); needs RLIMIT_MEMLOCK.
#define LOWMARK_CACHE_LOCKED 1

// `held`: memory in huge pages where the system has them (MADV_HUGEPAGE).
#define LOWMARK_CACHE_HUGE_PAGES 2

// Memory of a cache's budget that holds no file's data.
typedef struct lowmark_cache_buffer lowmark_cache_buffer;

// A page cache over files, with its own threads.
typedef struct lowmark_cache lowmark_cache;

// An open file of a cache.
typedef struct lowmark_cache_file lowmark_cache_file;

// A page of a file that stays in memory until it is unpinned.
typedef struct lowmark_cache_page lowmark_cache_page;

// A running recording.
typedef struct lowmark_cache_recording lowmark_cache_recording;

// The registration of a shrinker.
typedef struct lowmark_cache_registration lowmark_cache_registration;

// Watermarks of a class in bytes, ascending, the highest at most half of the class. Below `low`
// kswapd is woken and works until `high` is free; below `min` a thread that needs a page reclaims
// directly. All zero: the class's share by size of those of the whole cache, by the kernel's
// formula.
typedef struct lowmark_cache_marks {
  // Free bytes reserved for threads that write or free pages.
  uint64_t min;
  // Free bytes below which kswapd is woken.
  uint64_t low;
  // Free bytes at which kswapd stops.
  uint64_t high;
} lowmark_cache_marks;

// A class of memory above the general one.
typedef struct lowmark_cache_class {
  // Size in bytes, a part of the cache's memory; at least 1 MiB. 0: the class does not exist.
  uint64_t memory;
  // The class's watermarks.
  struct lowmark_cache_marks marks;
  // Allocations for files of higher classes leave this class a reserve: the memory of the higher
  // classes divided by this ratio (lowmem_reserve_ratio). 0: no reserve.
  uint32_t reserve_ratio;
  // How the system holds the memory: `LOWMARK_CACHE_ORDINARY`, `LOWMARK_CACHE_LOCKED` or
  // `LOWMARK_CACHE_HUGE_PAGES`.
  int held;
} lowmark_cache_class;

// The configuration of a cache; start from `lowmark_cache_defaults`.
typedef struct lowmark_cache_config {
  // Bytes of memory for pages: from 32 KiB up to the machine's memory. Never exceeded; the
  // tables beside the pages take up to 2 % more, and what any cache has takes about 1 MiB.
  uint64_t memory;
  // Classes of memory above the general one, as parts of `memory`: class 1 and class 2, as far
  // as their memory is not 0. The general class, which has the rest, is class 0.
  struct lowmark_cache_class classes[2];
  // Watermarks of the general class.
  struct lowmark_cache_marks marks;
  // Allocations for files of higher classes leave the general class a reserve: the memory of the
  // higher classes divided by this ratio (lowmem_reserve_ratio). 0: no reserve.
  uint32_t reserve_ratio;
  // How the system holds the general class's memory: `LOWMARK_CACHE_ORDINARY`,
  // `LOWMARK_CACHE_LOCKED` or `LOWMARK_CACHE_HUGE_PAGES`.
  int held;
  // CPU slots: how many threads can be inside the engine at once; 1 to 64. A cache takes at
  // most one for each 512 KiB of memory, however many are asked for.
  uint32_t cpus;
  // Threads that may use the cache at the same time, 1 to 65536. A thread counts from its first
  // call until it ends.
  uint32_t max_threads;
  // Files that may be open at the same time, 1 to 16777215. Closed files stay cached, each with
  // a descriptor of the process, until their places are needed.
  uint32_t max_files;
  // Dirty pages, in percent of memory, at which background writeback starts.
  uint32_t dirty_background_ratio;
  // Dirty pages, in percent of memory, at which writers are throttled.
  uint32_t dirty_ratio;
  // The engine's policy, by the name of a preset ("linux-6.12"); NULL: Linux 3.16.
  const char *policy;
  // True: bypass the system's page cache (O_DIRECT) where the filesystem can.
  bool direct;
  // True: make background transfers by an io_uring if the system has one; else by threads.
  bool ring;
  // Called with a message about a notice (there is no io_uring), on the thread that opens the
  // cache, or about data lost because the cache ended without `lowmark_cache_shutdown`, on the
  // thread that ended it. NULL: messages go to standard error.
  void (*tell)(void *context, const char *message);
  // The first argument of `tell`; it must outlive the cache.
  void *context;
} lowmark_cache_config;

// The result of a shutdown. All zero: everything written to the cache is in its files and
// confirmed by their devices.
typedef struct lowmark_cache_end {
  // Pages whose data did not reach their files since the cache began: it is lost.
  uint64_t lost_pages;
  // Files whose last sync failed.
  uint64_t failed_files;
} lowmark_cache_end;

// Levels and counters of a cache. Levels are as of now, counters since the cache began.
typedef struct lowmark_cache_stats {
  // Pages of memory, 4096 bytes each.
  uint64_t pages;
  // Free pages, those on per-CPU lists not counted.
  uint64_t free_pages;
  // Pages that hold file data.
  uint64_t cached_pages;
  // Dirty pages: newer than their file.
  uint64_t dirty_pages;
  // Pages under writeback.
  uint64_t writeback_pages;
  // Pages of buffers.
  uint64_t buffer_pages;
  // Pages evicted so far, by kswapd or by direct reclaim.
  uint64_t evicted_pages;
  // Pages evicted by kswapd.
  uint64_t evicted_by_kswapd;
  // Times a thread entered direct reclaim.
  uint64_t direct_reclaims;
  // Bytes read from files.
  uint64_t read_bytes;
  // Bytes written to files.
  uint64_t written_bytes;
  // Pages whose write failed: they are kept, and the next sync of their file tries again.
  uint64_t kept_pages;
  // Pages whose write failed and that could not be kept for lack of room: their data is lost.
  uint64_t lost_pages;
} lowmark_cache_stats;

// Levels and counters of a class of memory.
typedef struct lowmark_cache_class_stats {
  // All pages of the class.
  uint64_t pages;
  // Free pages, those on per-CPU lists not counted.
  uint64_t free_pages;
  // Pages that hold file data.
  uint64_t cached_pages;
  // Dirty pages: newer than their file.
  uint64_t dirty_pages;
  // Pages evicted so far.
  uint64_t evicted_pages;
  // The `min` watermark as it is now: free pages reserved for threads that write or free pages.
  uint64_t min_pages;
  // The `low` watermark: free pages below which kswapd is woken.
  uint64_t low_pages;
  // The `high` watermark: free pages at which kswapd stops.
  uint64_t high_pages;
} lowmark_cache_class_stats;

// Counts of a recording.
typedef struct lowmark_cache_recorded {
  // All accesses to pages, in the sample or not.
  uint64_t accesses;
  // Accesses of the sample that found their page in the cache.
  uint64_t hits;
  // Accesses of the sample that did not.
  uint64_t misses;
  // Hits and misses that were not written to the trace: they arrived faster than the file could
  // be written, or writing failed (`error`).
  uint64_t dropped;
  // The share of the pages in the sample, up to 1.
  double rate;
  // Misses by accesses, estimated if the recording is a sample; 0 if there were no accesses.
  double miss_ratio;
  // The negative of the errno after which nothing was written to the trace; 0: no error.
  int error;
} lowmark_cache_recorded;

// A program's cache of its own objects (decoded blocks, results) that it could make again: when
// memory is short it is asked to free the same share of them that is taken of the files' pages.
//
// `count` and `scan` are called by the thread that reclaims: one of the cache's, or one of the
// program's in the middle of a call, and by several at the same time. So they
//
// - must not wait for a lock that a thread which calls the cache may hold: use
//   pthread_mutex_trylock, and if that fails return 0 objects from `count`, and a negative number
//   from `scan`;
// - may free buffers (`lowmark_cache_free_buffer`), but no other handle: no file, page, cache or
//   recording;
// - may ask for counters and sizes; a call that needs more of the cache, opens a file, shuts down
//   or unregisters is -EDEADLK;
// - must return, and not by longjmp or an exception.
//
// Any number they return is accepted, and limited to a sensible range: none ends the process or
// confuses the cache.
typedef struct lowmark_cache_shrinker {
  // Returns the number of objects that could be freed now; a negative number means 0.
  int64_t (*count)(void *context);
  // Scans `objects` objects and frees those that it can; returns how many it freed. A negative
  // number: it cannot proceed now and is to be asked another time.
  int64_t (*scan)(void *context, uint64_t objects);
  // The first argument of both; it must outlive the registration.
  void *context;
  // The cost of making an object again, in disk seeks: at twice the cost half as many objects
  // are asked for. 0: the kernel's default, 2.
  uint32_t seeks;
  // Objects that are asked for in one call; fewer are put off until there are enough. 0: the
  // kernel's default, 128.
  uint32_t batch;
} lowmark_cache_shrinker;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version of this library, such as `0.1.0`.
const char *lowmark_cache_version(void);

// Returns the default configuration: 64 MiB of memory.
struct lowmark_cache_config lowmark_cache_defaults(void);

// Opens a cache and starts its threads. `config` may be NULL: the defaults. The caller frees
// `*cache` with `lowmark_cache_free`; it is NULL if the call fails.
//
// # Safety
// `config` is NULL or valid, and its `policy` is NULL or ends with a zero byte; `cache` is NULL or
// valid for writing a pointer.
int lowmark_cache_open(const struct lowmark_cache_config *config, struct lowmark_cache **cache);

// Shuts the cache down: refuses further calls (-ESHUTDOWN), lets those under way end, writes all
// dirty pages and stops the threads. `*end` reports losses; `end` may be NULL, and then a loss is
// the error `LOWMARK_CACHE_LOST`. The handles still have to be freed; the bytes of pages pinned
// for reading may still be read. A second call has nothing left to do.
//
// -EBUSY: pages are pinned for writing, and nothing was done.
//
// # Safety
// `cache` is NULL or a valid handle; `end` is NULL or valid for writing.
int lowmark_cache_shutdown(const struct lowmark_cache *cache, struct lowmark_cache_end *end);

// Frees the handle of a cache; NULL is allowed. The cache ends when also the last of its files is
// closed, the last of its pages unpinned, and its buffers, shrinkers and recordings freed: then as
// by `lowmark_cache_shutdown`, and a loss is reported to `tell`.
//
// # Safety
// `cache` is NULL, or came from `lowmark_cache_open`, was not freed, and is not in use.
void lowmark_cache_free(struct lowmark_cache *cache);

// Writes the levels and counters of the cache to `*stats`; all zero if `cache` is NULL.
//
// # Safety
// `cache` is NULL or a valid handle; `stats` is NULL or valid for writing.
int lowmark_cache_get_stats(const struct lowmark_cache *cache, struct lowmark_cache_stats *stats);

// Writes the cache's counters to `*text` as a page of OpenMetrics 1.0, for a program that serves
// it. The caller frees `*text` with `lowmark_cache_free_text`; it is NULL if the call fails.
//
// # Safety
// `cache` is NULL or a valid handle; `text` is NULL or valid for writing a pointer.
int lowmark_cache_openmetrics(const struct lowmark_cache *cache, char **text);

// Frees a text; NULL is allowed.
//
// # Safety
// `text` is NULL, or came from `lowmark_cache_openmetrics` and was not freed.
void lowmark_cache_free_text(char *text);

// Opens a regular file of the cache for reading and writing, and creates it if it is missing.
// Nothing but this cache may change its contents meanwhile; it is locked (flock(2)), and another
// cache that has it is -EBUSY. The caller closes `*file` with `lowmark_cache_close`; it is NULL if
// the call fails.
//
// # Safety
// `cache` is NULL or a valid handle; `name` is NULL or ends with a zero byte; `file` is NULL or
// valid for writing a pointer.
int lowmark_cache_open_file(const struct lowmark_cache *cache,
                            const char *name,
                            struct lowmark_cache_file **file);

// Opens a regular file of the cache as `lowmark_cache_open_file`, but as the `flags` say: one or
// more of `LOWMARK_CACHE_READ`, `LOWMARK_CACHE_WRITE`, `LOWMARK_CACHE_CREATE` and
// `LOWMARK_CACHE_EXCLUSIVE`. Caches that only read a file may share it.
//
// # Safety
// `cache` is NULL or a valid handle; `name` is NULL or ends with a zero byte; `file` is NULL or
// valid for writing a pointer.
int lowmark_cache_open_file_with(const struct lowmark_cache *cache,
                                 const char *name,
                                 int flags,
                                 struct lowmark_cache_file **file);

// Returns the error message of this thread's last call that failed; an empty text if none did. The
// text stays valid until the next call of this thread that fails.
const char *lowmark_cache_message(void);

// Allocates a buffer of 1 to 32768 bytes, zeroed, from the cache's memory budget: from class
// `number` (0: the general one) or, if that has none to spare, a class below. It counts in blocks
// of 1, 2, 4 or 8 pages, is never written out, and only `lowmark_cache_free_buffer` frees it: a
// program that could make its content again should register a shrinker. `*buffer` belongs to the
// caller, and is NULL if the call fails. A buffer keeps its cache in existence, and may be used
// after a shutdown.
//
// # Safety
// `cache` is NULL or a valid handle; `buffer` is NULL or valid for writing a pointer.
int lowmark_cache_allocate(const struct lowmark_cache *cache,
                           size_t length,
                           uint32_t number,
                           struct lowmark_cache_buffer **buffer);

// Returns the address of a buffer's bytes, aligned to a page and valid until the buffer is freed;
// NULL if `buffer` is.
//
// # Safety
// `buffer` is NULL or a valid handle.
void *lowmark_cache_buffer_bytes(const struct lowmark_cache_buffer *buffer);

// Returns the length of a buffer in bytes, as it was asked for.
//
// # Safety
// `buffer` is NULL or a valid handle.
int64_t lowmark_cache_buffer_length(const struct lowmark_cache_buffer *buffer);

// Frees a buffer; NULL is allowed. A shrinker may do so while it is called.
//
// # Safety
// `buffer` is NULL, or came from `lowmark_cache_allocate`, was not freed, and its bytes are not in
// use.
void lowmark_cache_free_buffer(struct lowmark_cache_buffer *buffer);

// Writes what each class of memory holds to `stats`, the general class first, for up to `count`
// classes; places without a class are zeroed. Returns the number of classes, 1 to 3.
//
// # Safety
// `cache` is NULL or a valid handle; `stats` has `count` places.
int64_t lowmark_cache_classes(const struct lowmark_cache *cache,
                              struct lowmark_cache_class_stats *stats,
                              int count);

// Closes a file; NULL is allowed. Dirty pages stay cached and are written later. Pinned pages stay
// pinned.
//
// # Safety
// `file` is NULL, or came from `lowmark_cache_open_file`, was not closed, and is not in use.
void lowmark_cache_close(struct lowmark_cache_file *file);

// Reads up to `length` bytes at `position` into `buffer`; returns the number of bytes the file had
// there, 0 at or behind its end.
//
// # Safety
// `file` is NULL or a valid handle; `buffer` has room for `length` bytes.
int64_t lowmark_cache_read(const struct lowmark_cache_file *file,
                           uint64_t position,
                           void *buffer,
                           size_t length);

// Reads as `lowmark_cache_read`, into several buffers one after the other.
//
// # Safety
// `file` is NULL or a valid handle; there are `count` buffers with room for their lengths.
int64_t lowmark_cache_readv(const struct lowmark_cache_file *file,
                            uint64_t position,
                            const struct iovec *buffers,
                            int count);

// Writes `length` bytes at `position` and returns `length`; the file grows if needed. The thread
// is throttled while too many pages are dirty. After an error a part may have been written.
//
// # Safety
// `file` is NULL or a valid handle; `buffer` has `length` bytes.
int64_t lowmark_cache_write(const struct lowmark_cache_file *file,
                            uint64_t position,
                            const void *buffer,
                            size_t length);

// Writes as `lowmark_cache_write`, from several buffers one after the other; returns the sum of
// their lengths.
//
// # Safety
// `file` is NULL or a valid handle; there are `count` buffers of their lengths.
int64_t lowmark_cache_writev(const struct lowmark_cache_file *file,
                             uint64_t position,
                             const struct iovec *buffers,
                             int count);

// Announces how a range will be used, in the words of posix_fadvise(2). POSIX_FADV_NORMAL,
// _SEQUENTIAL and _RANDOM hold for the handle, whatever the range; _WILLNEED and _DONTNEED for the
// range, where a length of 0 means up to the end.
//
// # Safety
// `file` is NULL or a valid handle.
int lowmark_cache_advise(const struct lowmark_cache_file *file,
                         uint64_t position,
                         uint64_t length,
                         int advice);

// Reads the missing pages of a range, in the background where possible; a length of 0 means up to
// the end.
//
// # Safety
// `file` is NULL or a valid handle.
int lowmark_cache_prefetch(const struct lowmark_cache_file *file,
                           uint64_t position,
                           uint64_t length);

// Drops the clean, unpinned pages of a range from the cache; a length of 0 means up to the end.
//
// # Safety
// `file` is NULL or a valid handle.
int lowmark_cache_drop(const struct lowmark_cache_file *file, uint64_t position, uint64_t length);

// Writes the dirty pages of a range to the system, and waits for that; a length of 0 means up to
// the end. The device need not have the data then: that takes `lowmark_cache_fsync`. A thread that
// has pinned a page of the range for writing waits for ever.
//
// # Safety
// `file` is NULL or a valid handle.
int lowmark_cache_flush(const struct lowmark_cache_file *file, uint64_t position, uint64_t length);

// Writes the dirty pages, and those that could not be written before, and waits until the device
// has them. Each handle is told of an error once. After -EIO and the like the data is still cached
// and the next call tries again; after `LOWMARK_CACHE_LOST` the data written since the last call
// that returned 0 must be written again. A thread that has pinned a page of the file for writing
// waits for ever.
//
// # Safety
// `file` is NULL or a valid handle.
int lowmark_cache_fsync(const struct lowmark_cache_file *file);

// Takes the pages of the file that are read or written from now on from class `number` of memory,
// or from a class below if that has none to spare; at first from class 0, the general one. Holds
// for all handles of the file. Cached pages stay where they are.
//
// # Safety
// `file` is NULL or a valid handle.
int lowmark_cache_file_set_class(const struct lowmark_cache_file *file, uint32_t number);

// Truncates or extends the file to `length` bytes. A thread that has pinned a page behind the new
// end waits for ever.
//
// # Safety
// `file` is NULL or a valid handle.
int lowmark_cache_truncate(const struct lowmark_cache_file *file, uint64_t length);

// Returns the file's length in bytes.
//
// # Safety
// `file` is NULL or a valid handle.
int64_t lowmark_cache_size(const struct lowmark_cache_file *file);

// Pins a page for reading: its 4096 bytes are at `*bytes` and do not change until
// `lowmark_cache_unpin`; bytes behind the file's end are zero. Pages count from 0. A page may be
// pinned more than once. `*page` belongs to the caller, and is NULL if the call fails.
//
// A write to the page, or a truncation before it, waits until the page is unpinned; a thread that
// does so while it has the page pinned itself waits for ever.
//
// # Safety
// `file` is NULL or a valid handle; `page` and `bytes` are NULL or valid for writing a pointer.
// The bytes are not written, and not read after the page is unpinned.
int lowmark_cache_pin(const struct lowmark_cache_file *file,
                      uint32_t number,
                      struct lowmark_cache_page **page,
                      const void **bytes);

// Pins a page for writing: no other thread reads, writes or syncs it until `lowmark_cache_unpin`.
// The page is dirty from now on; the thread is throttled first if too many pages are dirty. Bytes
// written behind the file's end are zeroed afterwards; only `lowmark_cache_write` and
// `lowmark_cache_truncate` extend a file. `*page` belongs to the caller, and is NULL if the call
// fails.
//
// A thread that pins, reads, writes or syncs a page that it has pinned for writing waits for ever.
//
// # Safety
// `file` is NULL or a valid handle; `page` and `bytes` are NULL or valid for writing a pointer.
// The bytes are not used after the page is unpinned.
int lowmark_cache_pin_write(const struct lowmark_cache_file *file,
                            uint32_t number,
                            struct lowmark_cache_page **page,
                            void **bytes);

// Unpins a page; NULL is allowed.
//
// # Safety
// `page` is NULL, or came from `lowmark_cache_pin` or `lowmark_cache_pin_write`, was not unpinned,
// and its bytes are not in use.
void lowmark_cache_unpin(struct lowmark_cache_page *page);

// Records every access to a page from now on into a new file, as a trace that `lowmark mrc` reads,
// or the accesses to a share of the pages chosen by hash (`rate`, above 0 and up to 1). A cache
// can have one recording at a time. The caller ends `*recording` with
// `lowmark_cache_finish_recording`; it is NULL if the call fails. It keeps the cache in existence.
//
// # Safety
// `cache` is NULL or a valid handle; `name` is NULL or ends with a zero byte; `recording` is NULL
// or valid for writing a pointer.
int lowmark_cache_record(const struct lowmark_cache *cache,
                         const char *name,
                         double rate,
                         struct lowmark_cache_recording **recording);

// Ends a recording and frees its handle, even if it returns an error. The trace file is then
// written, but not synced. `*recorded` receives the counts; `recorded` may be NULL, and then a
// failure to write the file is returned as an error.
//
// # Safety
// `recording` is NULL, or came from `lowmark_cache_record`, was not ended, and is not in use;
// `recorded` is NULL or valid for writing.
int lowmark_cache_finish_recording(struct lowmark_cache_recording *recording,
                                   struct lowmark_cache_recorded *recorded);

// Registers a shrinker, which is called when memory is short, until
// `lowmark_cache_unregister_shrinker`; a cache can have up to 64. `*shrinker` is copied.
// `*registration` belongs to the caller, and is NULL if the call fails. It keeps the cache in
// existence.
//
// # Safety
// `cache` is NULL or a valid handle; `shrinker` is NULL or valid, and its functions may be called
// as described there; `registration` is NULL or valid for writing a pointer.
int lowmark_cache_register_shrinker(const struct lowmark_cache *cache,
                                    const struct lowmark_cache_shrinker *shrinker,
                                    struct lowmark_cache_registration **registration);

// Unregisters a shrinker and frees its registration; NULL is allowed. It waits until no thread is
// in `count` or `scan`; afterwards none is called, and the context is the program's again. A
// thread that holds a lock which a callback waits for waits for ever.
//
// -EDEADLK: it was called from a shrinker, and nothing was done.
//
// # Safety
// `registration` is NULL, or came from `lowmark_cache_register_shrinker`, was not freed, and is
// not in use.
int lowmark_cache_unregister_shrinker(struct lowmark_cache_registration *registration);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LOWMARK_CACHE_H */
