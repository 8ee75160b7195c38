/* tests/support/scenario_file.h - reads one file of tests/scenario/ with the policy's own YAML reader. tests/scenario/README.md says what is
 * in one. All in a header: only one test wants it. */
#ifndef PAWL_TESTS_SCENARIO_FILE_H
#define PAWL_TESTS_SCENARIO_FILE_H
#include "daemon/base/buf.h"
#include "policy/yaml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

struct scenario {
	struct arena mem;
	struct ynode *root;
	char *text;
};

static inline char *file_text(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *text = calloc(1, YAML_MAX_BYTES + 1);

	if (!f || !text)
		fail_msg("%s: cannot be read", path);
	(void)!fread(text, 1, YAML_MAX_BYTES, f);
	(void)fclose(f);
	return text;
}

static inline void scenario_read(const char *path, struct scenario *ret)
{
	struct policy_report rep;
	struct buf said = BUF_MAX(1 << 16);

	*ret = (struct scenario){ .text = file_text(path) };
	report_init(&rep, path);
	if (yaml_read(str_of(ret->text), &ret->mem, &rep, &ret->root) != 0 || rep.n) {
		policy_report_text(&rep, &said);
		fail_msg("%.*s", STR_ARG(buf_str(&said)));
	}
	policy_report_done(&rep);
	buf_done(&said);
}

static inline void scenario_done(struct scenario *s)
{
	arena_done(&s->mem);
	free(s->text);
}

static inline struct ynode *node_of(const struct ynode *map, const char *key)
{
	for (struct ynode *k = map->first; k; k = k->next)
		if (str_is(k->text, key))
			return k->value;
	return NULL;
}

/* The text under a key; NULL: there is no such key. */
static inline const char *text_of(const struct ynode *map, const char *key)
{
	const struct ynode *v = node_of(map, key);

	return v ? v->text.p : NULL;
}

static inline bool is(const struct ynode *map, const char *key, const char *value)
{
	const char *v = text_of(map, key);

	return v && strcmp(v, value) == 0;
}

static inline int number_of(const struct ynode *map, const char *key, int otherwise)
{
	const char *v = text_of(map, key);

	return v ? (int)strtol(v, NULL, 10) : otherwise;
}

#endif
