/* daemon/watch/small_file.c - see small_file.h. */
#include "daemon/watch/small_file.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

ssize_t small_read(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY), saved;
	size_t at = 0;
	ssize_t n = 0;

	if (fd < 0)
		return -1;
	while (at < size && ((n = read(fd, buf + at, size - at)) > 0 || (n < 0 && errno == EINTR)))
		at += n > 0 ? (size_t)n : 0;
	saved = n < 0 ? errno : EFBIG;
	(void)close(fd);
	if (n < 0 || at >= size) {
		errno = saved;
		return -1;
	}
	buf[at] = '\0';
	return (ssize_t)at;
}

int small_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY), saved;
	size_t len = strlen(text);
	ssize_t n;

	if (fd < 0)
		return -1;
	do
		n = write(fd, text, len);
	while (n < 0 && errno == EINTR);
	saved = n < 0 ? errno : EIO;
	(void)close(fd);
	if (n == (ssize_t)len)
		return 0;
	errno = saved;
	return -1;
}

bool small_number(const char *text, uint64_t *ret)
{
	uint64_t v = 0;
	const char *p = text;

	for (; *p >= '0' && *p <= '9'; p++) {
		if (v > (UINT64_MAX - 9) / 10)
			return false;
		v = v * 10 + (uint64_t)(*p - '0');
	}
	if (p == text || (*p && *p != '\n'))
		return false;
	*ret = v;
	return true;
}

bool small_read_number(const char *path, uint64_t *ret)
{
	char text[64];

	return small_read(path, text, sizeof(text)) > 0 && small_number(text, ret);
}

bool small_field(const char *text, const char *key, uint64_t *ret)
{
	size_t n = strlen(key);

	for (const char *line = text; line && *line;) {
		if (strncmp(line, key, n) == 0 && line[n] == ' ')
			return small_number(line + n + 1, ret);
		line = strchr(line, '\n');
		if (line)
			line++;
	}
	return false;
}
