// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Each line of output is a wrong call: it must return an error that names the mistake, and allocate
// nothing.
#include <stdio.h>
#include <string.h>
#include "lowmark.h"

static int stop(void *context, size_t done, size_t total)
{
	++*(int *)context;
	return done < total;
}

static void say(const char *what, enum lowmark_code code, char *error)
{
	if (error)
		for (char *end = strchr(error, '\n'); end; end = strchr(error, '\n'))
			*end = ' ';
	printf("%s: %d: %s\n", what, code, error ? error : "-");
	lowmark_free(error);
}

// The call comes first, because it sets `error`, which is read after it.
#define SAY(what, call)                                \
	do {                                           \
		error = NULL;                          \
		const enum lowmark_code code = (call); \
		say(what, code, error);                \
	} while (0)

int main(int argc, char **argv)
{
	struct lowmark_results *results = (void *)1;
	int heard = 0;
	struct lowmark_options options = { .progress = stop, .context = &heard, .jobs = 1 };
	char *error = NULL, *csv = NULL;
	const char *bad[] = { "machine.cpus=0" };
	const char *text = argc > 1 ? argv[1] : "";

	SAY("a key", lowmark_run("e.toml", "nonsense = 1", NULL, &results, &error));
	printf("results: %d\n", results != NULL);
	SAY("a file", lowmark_run("/nowhere.toml", NULL, NULL, &results, &error));
	SAY("a name", lowmark_run(NULL, NULL, NULL, &results, &error));
	SAY("no place", lowmark_run("e.toml", text, NULL, NULL, &error));
	SAY("nobody asks", lowmark_run("e.toml", "nonsense = 1", NULL, &results, NULL));
	options.set = bad, options.sets = 1;
	SAY("a setting", lowmark_run("e.toml", text, &options, &results, &error));
	options.set = NULL;
	SAY("a list", lowmark_run("e.toml", text, &options, &results, &error));
	options.sets = 0;
	SAY("stopped", lowmark_run("e.toml", text, &options, &results, &error));
	printf("heard: %d\n", heard);
	SAY("policy", lowmark_mrc_keys(NULL, 0, "5", "lruu", &csv, &error));
	SAY("keys", lowmark_mrc_keys(NULL, 7, "5", "lru", &csv, &error));
	SAY("trace", lowmark_mrc("/nowhere", "5", "lru", &csv, &error));
	printf("nothing: %d %d %d\n", lowmark_comparison(NULL) == NULL, lowmark_failed(NULL) == NULL,
	       lowmark_file(NULL, "a", NULL) == NULL);
	lowmark_free(NULL);
	lowmark_free_results(NULL);

	struct lowmark_options two = { .iterations = 2, .out = argc > 2 ? argv[2] : NULL };
	SAY("a run", lowmark_run("e.toml", text, &two, &results, &error));
	for (size_t i = 0; lowmark_name(results, i); i++)
		printf("file %s\n", lowmark_name(results, i));
	lowmark_free_results(results);
	return 0;
}
