/* tests/support/fail_malloc.c - see fail_malloc.h. Stands before the allocator of the C library, or before a
 * sanitizer's. Libraries that are linked in are covered as well: jansson, libyaml and the rest call malloc through the
 * same name. */
#include "tests/support/fail_malloc.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local long left; /* 0: nothing is planned */
static _Thread_local bool failed;
static _Thread_local size_t largest;

/* Or every test that walks through failures would pass without one. */
static void prove(void)
{
	void *(*volatile allocate)(size_t) = malloc; /* a compiler knows what malloc() leaves alone; this one does not */
	void *p;

	left = 1;
	p = allocate(1);
	if (p) {
		(void)fputs("fail_malloc: another malloc stands before ours (valgrind? see fail_malloc.h)\n", stderr);
		abort();
	}
}

void fail_malloc_after(long n)
{
	prove();
	failed = false;
	left = n;
}

bool fail_malloc_stop(void)
{
	left = 0;
	return failed;
}

void fail_malloc_watch(void)
{
	largest = 0;
}

size_t fail_malloc_largest(void)
{
	return largest;
}

/* Called before ThreadSanitizer has set itself up: not to be watched by it. */
#ifdef __clang__
#define EARLY __attribute__((disable_sanitizer_instrumentation))
#else
#define EARLY __attribute__((no_sanitize("thread")))
#endif

EARLY static bool fails(size_t n)
{
	largest = n > largest ? n : largest;
	if (left == 0 || --left > 0)
		return false;
	failed = true;
	errno = ENOMEM;
	return true;
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

void *malloc(size_t n);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t n);

#ifdef SANITIZED
void *__interceptor_malloc(size_t n);
void *__interceptor_calloc(size_t n, size_t size);
void *__interceptor_realloc(void *p, size_t n);
#define REAL(name, type) __interceptor_##name
#else
/* Looked up in libc, not called as __libc_malloc: valgrind replaces what has the public name. dlsym() does not allocate
 * on success. */
#define REAL(name, type) ((type)(uintptr_t)real(&at_##name, #name))
#include <stdint.h>
typedef void *malloc_type(size_t);
typedef void *calloc_type(size_t, size_t);
typedef void *realloc_type(void *, size_t);
static _Atomic(uintptr_t) at_malloc, at_calloc, at_realloc;

static uintptr_t real(_Atomic(uintptr_t) *at, const char *name)
{
	uintptr_t fn = *at;

	if (!fn) {
		fn = (uintptr_t)dlsym(RTLD_NEXT, name);
		if (!fn)
			abort();
		*at = fn;
	}
	return fn;
}
#endif

EARLY void *malloc(size_t n)
{
	return fails(n) ? NULL : REAL(malloc, malloc_type *)(n);
}

EARLY void *calloc(size_t n, size_t size)
{
	return fails(n * size) ? NULL : REAL(calloc, calloc_type *)(n, size);
}

EARLY void *realloc(void *p, size_t n)
{
	return fails(n) ? NULL : REAL(realloc, realloc_type *)(p, n);
}
