// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Compares two kernels for a small copy, and prints the misses of a cache; docs/c.md shows how to
// build it.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "lowmark.h"

static const char *EXPERIMENT =
	"name = \"first\"\n"
	"iterations = 4\n"
	"policy = [\"linux-3.0\", \"linux-3.1\"]\n"
	"filesystem = \"ext4\"\n"
	"machine = \"machines/512M.toml\"\n"
	"workload = { command = \"dd if=/dev/zero of=a bs=64k count=64\" }\n";

static int told(void *context, size_t done, size_t total)
{
	fprintf(context, "%zu of %zu\n", done, total);
	return 0; // go on
}

static int fail(const char *what, enum lowmark_code code, char *error)
{
	fprintf(stderr, "%s: %s\n", what, error);
	lowmark_free(error);
	return code;
}

int main(void)
{
	const char *set[] = { "machine.cpus=2" };
	struct lowmark_options options = {
		.set = set, .sets = 1, .iterations = 2, .progress = told, .context = stderr,
	};
	struct lowmark_results *results;
	char *error, *csv;
	size_t length;

	enum lowmark_code code = lowmark_run("first.toml", EXPERIMENT, &options, &results, &error);
	if (code != LOWMARK_CODE_DONE)
		return fail("the run", code, error);
	puts(lowmark_comparison(results));
	const uint8_t *summary = lowmark_file(results, "summary.csv", &length);
	printf("summary.csv has %zu bytes and begins %.7s\n", length, (const char *)summary);
	lowmark_free_results(results);

	uint64_t keys[1000];
	for (size_t i = 0; i < 1000; i++)
		keys[i] = i % 10;
	code = lowmark_mrc_keys(keys, 1000, "5,10", "lru,sieve", &csv, &error);
	if (code != LOWMARK_CODE_DONE)
		return fail("the curves", code, error);
	fputs(csv, stdout);
	lowmark_free(csv);
	return 0;
}
