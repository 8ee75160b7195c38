/* tests/support/log_fixture.h - a log folder to break: temporary folder, test key, entries signed and chained by hand,
 * raw file bytes. All in a header, so that tests of other rooms need not link the log. */
#ifndef TEST_LOG_FIXTURE_H
#define TEST_LOG_FIXTURE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/log/journal_impl.h"
#include "daemon/log/keys.h"

#include <sodium.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define FX_ORIGIN "example.com/pawl-test"
#define FX_KEY    "PRIVATE+KEY+example.com/pawl-test/entry+f3794be2+ASAhIiMkJSYnKCkqKywtLi8wMTIzNDU2Nzg5Ojs8PT4/"
#define FX_VKEY   "example.com/pawl-test/entry+f3794be2+ASmsuuFBvMrwsi4alNNNC8c2HlJtC/4SyJeUvJMilm3X"

/* In memory where there is such a place: these tests sync thousands of times, and order of calls is what they look at,
 * not the disk. */
static inline void fx_dir(char out[static 64])
{
	(void)snprintf(out, 64, "%s/pawl-test-XXXXXX", access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp");
	assert_non_null(mkdtemp(out));
}

static inline void fx_path(const char *dir, const char *name, char out[static 512])
{
	(void)snprintf(out, 512, "%s/%s", dir, name);
}

static inline void fx_remove(const char *dir)
{
	char path[512];
	struct dirent *e;
	DIR *d = opendir(dir);

	while (d && (e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		fx_path(dir, e->d_name, path);
		(void)unlink(path);
	}
	if (d)
		(void)closedir(d);
	(void)rmdir(dir);
}

static inline uint8_t *fx_read(const char *dir, const char *name, size_t *ret_n)
{
	char path[512];
	struct stat st;
	uint8_t *p;
	int fd;

	fx_path(dir, name, path);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	assert_int_equal(fstat(fd, &st), 0);
	p = malloc((size_t)st.st_size + 1);
	assert_non_null(p);
	assert_int_equal(read(fd, p, (size_t)st.st_size), st.st_size);
	p[st.st_size] = 0;
	(void)close(fd);
	*ret_n = (size_t)st.st_size;
	return p;
}

static inline void fx_write(const char *dir, const char *name, const void *p, size_t n, mode_t mode)
{
	char path[512];
	int fd;

	fx_path(dir, name, path);
	(void)unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, p, n), (ssize_t)n);
	assert_int_equal(fchmod(fd, mode), 0);
	(void)close(fd);
}

static inline struct sign_key *fx_key(void)
{
	struct pawl_error err;
	struct sign_key *k = NULL;

	if (sign_key_parse(STR(FX_KEY), &k, &err) < 0)
		fail_msg("%s", err.msg);
	return k;
}

/* Appends the signed entry; prev goes on to it. */
static inline void fx_entry(const struct sign_key *k, const char *origin, uint64_t seq, uint8_t prev[static 32],
			    const char *body, struct buf *out)
{
	size_t from = out->n;
	struct str text;
	uint8_t sig[64];

	entry_text(str_of(origin), seq, prev, str_of(body), out, NULL);
	text = (struct str){ out->p + from, out->n - from };
	entry_hash(text, prev);
	sign_key_sign(k, text, sig);
	note_sig_line(sign_key_vkey(k)->name, sign_key_vkey(k)->id, sig, out);
	assert_true(buf_ok(out));
}

/* n entries, `each` a batch, appended as records; notes kept apart by the caller if it needs them. prev and seq go on.
 */
static inline void fx_records(const struct sign_key *k, const char *origin, uint64_t *seq, uint8_t prev[static 32],
			      size_t batches, size_t each, struct buf *out)
{
	uint8_t hash[32];

	crypto_hash_sha256(hash, (const uint8_t *)origin, strlen(origin));
	for (size_t b = 0; b < batches; b++) {
		struct buf note[8], rec = BUF_MAX(1u << 20);
		struct str notes[8];

		assert_true(each <= 8);
		for (size_t i = 0; i < each; i++) {
			char body[64];

			note[i] = BUF_MAX(65535);
			(void)snprintf(body, sizeof(body), "{\"kind\":\"stop\",\"why\":\"%llu\"}",
				       (unsigned long long)(*seq + i));
			fx_entry(k, origin, *seq + i, prev, body, &note[i]);
			notes[i] = buf_str(&note[i]);
		}
		record_build(hash, *seq, notes, each, &rec);
		buf_add(out, rec.p, rec.n);
		*seq += each;
		buf_done(&rec);
		for (size_t i = 0; i < each; i++)
			buf_done(&note[i]);
	}
	assert_true(buf_ok(out));
}
#endif
