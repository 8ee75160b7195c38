/* daemon/watch/small_file.h - files of /proc and of cgroups, which hold a line or a number. */
#ifndef PAWL_SMALL_FILE_H
#define PAWL_SMALL_FILE_H
#include "pawl/error.h"

#include <sys/types.h>

/* The file's text with a NUL behind it, its length, or -1 with errno; a longer one than fits is -1 with EFBIG. */
ssize_t small_read(const char *path, char *buf, size_t size);
/* In one write, as the kernel wants it; into a file that is there. 0, or -1 with errno. */
int small_write(const char *path, const char *text);
/* A whole decimal number with nothing but a newline behind it. */
bool small_number(const char *text, uint64_t *ret);
bool small_read_number(const char *path, uint64_t *ret);
/* The number behind "KEY " at the start of a line. */
bool small_field(const char *text, const char *key, uint64_t *ret);
#endif
