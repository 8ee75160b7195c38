/* tests/support/fail_malloc.h - the n-th allocation from now fails, in this thread. Works under the sanitizers too, and
 * under valgrind when that is told to leave the program's own malloc alone (--soname-synonyms=somalloc=nouserintercepts).
 * for (long n = 1; ; n++) { fail_malloc_after(n); r = thing(); if (!fail_malloc_stop()) break; ... } walks through every
 * failure. */
#ifndef PAWL_TESTS_FAIL_MALLOC_H
#define PAWL_TESTS_FAIL_MALLOC_H
#include <stdbool.h>
#include <stddef.h>

void fail_malloc_after(long n); /* 1 = the next one, and only that one */
bool fail_malloc_stop(void);    /* true when one has failed since */
void fail_malloc_watch(void);
size_t fail_malloc_largest(void); /* bytes asked for at once since then, at most */

#endif
