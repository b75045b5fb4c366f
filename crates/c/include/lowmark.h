// SPDX-License-Identifier: MIT OR Apache-2.0

#ifndef LOWMARK_H
#define LOWMARK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// Lowmark for C programs: docs/c.md tells of it, examples/first.c shows it.
//
// Strings are UTF-8 and end with a zero. What a function gives through `error` or as `char *` is the caller's, to be
// given back to `lowmark_free`; what results give as `const char *` lives as long as they do. Every function may be
// called from any thread, and results be read by several at once.

// How a call ended, as the command line's exit codes.
typedef enum lowmark_code {
  // It did what it should.
  LOWMARK_CODE_DONE = 0,
  // The system failed, an iteration or a check did, or there is a bug in lowmark.
  LOWMARK_CODE_FAILED = 1,
  // Something in what was given is wrong; the error says what would be accepted.
  LOWMARK_CODE_WRONG_INPUT = 2,
  // `progress` stopped it.
  LOWMARK_CODE_STOPPED = 130,
} lowmark_code;

// Results of a run: the files of a results folder, whether they were put into one or not.
typedef struct lowmark_results lowmark_results;

// What stands above an experiment's text, and how it is run. All zero is as the text has it.
typedef struct lowmark_options {
  // Keys of the experiment with their values as TOML, `machine.cpus=2`; `sets` of them.
  const char *const *set;
  // How many there are.
  size_t sets;
  // Iterations of each cell; 0: the text's.
  uint32_t iterations;
  // Threads; 0: as many as there are cores and memory for. The results are the same for any number.
  uint32_t jobs;
  // The seed that iterations derive theirs from; NULL: the text's.
  const uint64_t *seed;
  // The results folder; NULL: the results are in memory alone.
  const char *out;
  // Whether earlier results there may be replaced.
  bool replace;
  // Is told at the beginning and after each iteration how many of all are finished, by the thread that called; if it gives
  // anything but 0, the run stops, and what is finished is kept in the folder. NULL: nobody is told.
  int (*progress)(void *context, size_t done, size_t total);
  // What `progress` is given.
  void *context;
} lowmark_options;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of this library, `0.1.0`.
const char *lowmark_version(void);

// Runs an experiment: a file, or, if `text` is not NULL, that text as if it lay in a file named `name`. Files that it
// names are looked for beside that, in the folders above, and among those that come with the library.
//
// `options` may be NULL. `*results` are the caller's, to be given back to `lowmark_free_results`, and NULL if it
// fails. Iterations that failed are no error: `lowmark_failed` tells of them.
//
// # Safety
// Strings end with a zero and lists have the lengths that are said; `results` takes a pointer, `error` too unless it
// is NULL.
enum lowmark_code lowmark_run(const char *name,
                              const char *text,
                              const struct lowmark_options *options,
                              struct lowmark_results **results,
                              char **error);

// Which policy is better, as `lowmark run` prints it.
//
// # Safety
// `results` came from `lowmark_run` and was not given back.
const char *lowmark_comparison(const struct lowmark_results *results);

// What went wrong in iterations; NULL if nothing did.
//
// # Safety
// As `lowmark_comparison`.
const char *lowmark_failed(const struct lowmark_results *results);

// The path of the file of that number, from 0 on, in the results folder; NULL behind the last one.
//
// # Safety
// As `lowmark_comparison`.
const char *lowmark_name(const struct lowmark_results *results, size_t number);

// A file of the results by its path, `summary.csv`, and how long it is; NULL if there is none. It does not end
// with a zero.
//
// # Safety
// As `lowmark_comparison`; `path` is a string, `length` takes a number.
const uint8_t *lowmark_file(const struct lowmark_results *results,
                            const char *path,
                            size_t *length);

// Miss-ratio curves of a trace file as CSV, as `lowmark mrc --out` writes them: a line for each policy and size.
// `sizes`: `5000,10000`, `1000..100000:50`, `512MiB`, `10%`. `policies`: names with commas between, or `all`.
//
// # Safety
// Strings end with a zero; `csv` takes a pointer, `error` too unless it is NULL.
enum lowmark_code lowmark_mrc(const char *trace,
                              const char *sizes,
                              const char *policies,
                              char **csv,
                              char **error);

// As `lowmark_mrc`, of keys in memory: each is one request for one page, in order.
//
// # Safety
// As `lowmark_mrc`; there are `count` keys.
enum lowmark_code lowmark_mrc_keys(const uint64_t *keys,
                                   size_t count,
                                   const char *sizes,
                                   const char *policies,
                                   char **csv,
                                   char **error);

// Gives back what came as `char *` or through `error`; NULL is nothing.
//
// # Safety
// It came from this library and was not given back.
void lowmark_free(char *text);

// Gives back results; NULL is nothing.
//
// # Safety
// As `lowmark_free`, of `lowmark_run`; nobody reads them any more.
void lowmark_free_results(struct lowmark_results *results);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LOWMARK_H */
