// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef LOWMARK_H
#define LOWMARK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// Lowmark for C programs: docs/c.md describes it, examples/first.c shows it in use.
//
// Strings are UTF-8 and end with a zero byte. A text that a function returns through `error` or as
// `char *` belongs to the caller, who frees it with `lowmark_free`; a text that results return as
// `const char *` lives as long as they do. Any thread may call any function, and several threads
// may read the same results at once.

// The result of a call, with the numbers of the command line's exit codes.
typedef enum lowmark_code {
  // Success.
  LOWMARK_CODE_DONE = 0,
  // The system failed, an iteration or a check failed, or lowmark has a bug.
  LOWMARK_CODE_FAILED = 1,
  // An argument is wrong; the error says what would be accepted.
  LOWMARK_CODE_WRONG_INPUT = 2,
  // `progress` stopped the run.
  LOWMARK_CODE_STOPPED = 130,
} lowmark_code;

// The results of a run: the files of a results folder, whether they were written to one or not.
typedef struct lowmark_results lowmark_results;

// Changes to an experiment's text, and how it is run. All zero: nothing is changed.
typedef struct lowmark_options {
  // A list of `sets` keys of the experiment with values in TOML, such as `machine.cpus=2`.
  const char *const *set;
  // The number of entries in `set`.
  size_t sets;
  // Iterations of each cell; 0: as in the text.
  uint32_t iterations;
  // Threads; 0: as many as cores and memory allow. The results are the same for any number.
  uint32_t jobs;
  // The seed from which each iteration derives its own; NULL: as in the text.
  const uint64_t *seed;
  // The path of the results folder; NULL: the results are kept in memory only.
  const char *out;
  // Whether earlier results in the folder may be replaced.
  bool replace;
  // Called at the beginning and after each iteration, on the calling thread, with the number of
  // finished iterations and of all. If it returns anything but 0, the run stops, and the
  // finished iterations are kept in the folder. NULL: not called.
  int (*progress)(void *context, size_t done, size_t total);
  // The first argument of `progress`.
  void *context;
} lowmark_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version of this library, such as `0.1.0`.
const char *lowmark_version(void);

// Runs an experiment: the file `name`, or, if `text` is not NULL, that text as if it were the
// content of a file `name`. Files that the experiment names are looked for beside that file, in
// the folders above, and among those that come with the library.
//
// `options` may be NULL. The caller frees `*results` with `lowmark_free_results`; it is NULL if
// the call fails. Iterations that failed are no error of the call: `lowmark_failed` reports them.
//
// # Safety
// Strings end with a zero byte and lists have the given lengths; `results` is valid for writing a
// pointer, and so is `error` unless it is NULL.
enum lowmark_code lowmark_run(const char *name,
                              const char *text,
                              const struct lowmark_options *options,
                              struct lowmark_results **results,
                              char **error);

// Returns the comparison of the policies, as `lowmark run` prints it.
//
// # Safety
// `results` is NULL, or came from `lowmark_run` and was not freed.
const char *lowmark_comparison(const struct lowmark_results *results);

// Returns the errors of failed iterations; NULL if none failed.
//
// # Safety
// As `lowmark_comparison`.
const char *lowmark_failed(const struct lowmark_results *results);

// Returns the path in the results folder of file `number`, counted from 0; NULL behind the last
// file.
//
// # Safety
// As `lowmark_comparison`.
const char *lowmark_name(const struct lowmark_results *results, size_t number);

// Returns the content of the results' file `path`, such as `summary.csv`, and writes its length to
// `length`; NULL if there is no such file. The content does not end with a zero byte.
//
// # Safety
// As `lowmark_comparison`; `path` ends with a zero byte, `length` is NULL or valid for writing.
const uint8_t *lowmark_file(const struct lowmark_results *results,
                            const char *path,
                            size_t *length);

// Computes miss-ratio curves of a trace file as CSV, as `lowmark mrc --out` writes them: a line
// for each policy and size. `sizes`: `5000,10000`, `1000..100000:50`, `512MiB` or `10%`.
// `policies`: names separated by commas, or `all`. The caller frees `*csv` with `lowmark_free`.
//
// # Safety
// Strings end with a zero byte; `csv` is valid for writing a pointer, and so is `error` unless it
// is NULL.
enum lowmark_code lowmark_mrc(const char *trace,
                              const char *sizes,
                              const char *policies,
                              char **csv,
                              char **error);

// Computes curves as `lowmark_mrc` does, for `count` keys in memory; each is a request for one
// page.
//
// # Safety
// As `lowmark_mrc`; `keys` has `count` keys.
enum lowmark_code lowmark_mrc_keys(const uint64_t *keys,
                                   size_t count,
                                   const char *sizes,
                                   const char *policies,
                                   char **csv,
                                   char **error);

// Frees a text returned as `char *` or through `error`; NULL is allowed.
//
// # Safety
// `text` came from this library and was not freed.
void lowmark_free(char *text);

// Frees the results of a run; NULL is allowed.
//
// # Safety
// `results` is NULL, or came from `lowmark_run`, was not freed, and is not in use.
void lowmark_free_results(struct lowmark_results *results);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LOWMARK_H */
