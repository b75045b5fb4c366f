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
// owns the handle and gives it back once: to `lowmark_cache_free`, `lowmark_cache_close`, `lowmark_cache_unpin`. A
// page keeps its file open, and a file its cache: handles may be given back in any order, and the cache ends with the
// last of them.
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
//
// No call ends the process, prints, or takes a signal, but for what `tell` is not there to hear.

// Data that was written since the last sync that succeeded may be lost: write it again.
#define LOWMARK_CACHE_LOST -5001

// Earlier data could not be written: writes are refused until a sync of that data succeeds.
#define LOWMARK_CACHE_REFUSED -5002

// There is no memory because pages are pinned: let some go.
#define LOWMARK_CACHE_PINNED -5003

// A bug of this library. Nothing is known of the cache any more: give its handles back.
#define LOWMARK_CACHE_BUG -5004

// A page cache over files, with threads of its own.
typedef struct lowmark_cache lowmark_cache;

// An open file of a cache.
typedef struct lowmark_cache_file lowmark_cache_file;

// A page of a file that stays in memory until it is let go.
typedef struct lowmark_cache_page lowmark_cache_page;

// What a cache is opened for; `lowmark_cache_defaults` gives one to change.
typedef struct lowmark_cache_config {
  // Bytes of memory for pages: 32 KiB to what the machine has. Never exceeded; the tables beside them take up to 2 %
  // more, and what any cache has about 1 MiB.
  uint64_t memory;
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

// Gives a cache back; NULL is nothing. It ends when the last of its files is closed and the last of its pages let go:
// then as by `lowmark_cache_shutdown`, and of a loss `tell` is told.
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

// What went wrong in the last call of this thread that failed, in words; an empty text if none did. It stays as it
// is until the next call of this thread that fails.
const char *lowmark_cache_message(void);

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

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LOWMARK_CACHE_H */
