/* tests/unit/test_init.c - what `pawl init` leaves behind, above all when it does not come to its end.
 * P12: for every file, a kill or a failure at each system call leaves the old file or the new one, never half of one. */
#include "daemon/cli/init.h"
#include "daemon/log/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct place {
	char base[64], dir[96];
	FILE *out; /* what init says goes here */
};

static int setup(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	if (!p)
		return -1;
	(void)snprintf(p->base, sizeof(p->base), "/tmp/pawl-init-XXXXXX");
	if (!mkdtemp(p->base))
		return -1;
	(void)snprintf(p->dir, sizeof(p->dir), "%s/d", p->base);
	p->out = fopen("/dev/null", "w");
	*state = p;
	return p->out ? 0 : -1;
}

static const char *const files[] = { "policy.yaml", "keys/entry.key", "entry.vkey" };
static const mode_t modes[] = { 0600, 0600, 0644 };
static const char *const folders[] = { "run/operator", "run", "log", "state", "keys", "." };

static void path_of(const struct place *p, const char *name, char out[static 160])
{
	(void)snprintf(out, 160, "%s/%s", p->dir, name);
}

/* Back to nothing: each round of a matrix starts from an empty place. */
static void wipe(const struct place *p)
{
	static const char *const temporary[] = { ".policy.yaml.new", "keys/.entry.key.new", ".entry.vkey.new", "log/journal-0" };
	char path[160];

	for (size_t i = 0; i < PAWL_LEN(files); i++) {
		path_of(p, files[i], path);
		(void)unlink(path);
	}
	for (size_t i = 0; i < PAWL_LEN(temporary); i++) {
		path_of(p, temporary[i], path);
		(void)unlink(path);
	}
	for (size_t i = 0; i < PAWL_LEN(folders); i++) {
		path_of(p, folders[i], path);
		(void)rmdir(i + 1 < PAWL_LEN(folders) ? path : p->dir);
	}
}

static int teardown(void **state)
{
	struct place *p = *state;

	wipe(p);
	(void)fclose(p->out);
	(void)rmdir(p->base);
	free(p);
	return 0;
}

static int run(const struct place *p, const char *name, const struct fs_io *io, struct pawl_error *err)
{
	struct init_options opt = { .dir = p->dir, .name = name };

	*err = (struct pawl_error){ 0 };
	return init_run(&opt, io, p->out, err);
}

static size_t slurp(const struct place *p, const char *name, char out[static 16384])
{
	PAWL_CLEANUP(buf_done) struct buf b = BUF_MAX(16383);
	struct pawl_error err;
	char path[160];

	path_of(p, name, path);
	if (fs_read(AT_FDCWD, path, &b, &err) < 0)
		return 0;
	if (b.n)
		memcpy(out, b.p, b.n);
	out[b.n] = '\0';
	return b.n;
}

static mode_t mode_of(const struct place *p, const char *name)
{
	struct stat st;
	char path[160];

	path_of(p, name, path);
	return lstat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

/* All there, whole, with the right modes, and the two keys belong together. */
static void assert_complete(const struct place *p)
{
	char text[16384], path[160];
	struct sign_key *key = NULL;
	struct vkey vkey;
	struct pawl_error err;
	size_t n;

	for (size_t i = 0; i < PAWL_LEN(files); i++)
		assert_int_equal(mode_of(p, files[i]), modes[i]);
	for (size_t i = 0; i < PAWL_LEN(folders); i++)
		assert_int_equal(mode_of(p, folders[i]), 0700);
	n = slurp(p, "policy.yaml", text);
	assert_true(n > 4);
	assert_string_equal(text + n - 4, "...\n");
	path_of(p, "keys/entry.key", path);
	assert_int_equal(sign_key_load(path, &key, &err), 0);
	n = slurp(p, "entry.vkey", text);
	assert_int_equal(vkey_parse((struct str){ text, n }, &vkey, &err), 0);
	assert_ptr_equal(strchr(text, '\n'), text + n - 1); /* one line */
	assert_string_equal(vkey.name, sign_key_vkey(key)->name);
	assert_memory_equal(vkey.pub, sign_key_vkey(key)->pub, 32);
	sign_key_free(key);
}

/* What a stranger may find after a kill: each file absent or whole with its mode. */
static void assert_never_half(const struct place *p)
{
	char text[16384], path[160];
	struct sign_key *key = NULL;
	struct vkey vkey;
	struct pawl_error err;
	size_t n;

	for (size_t i = 0; i < PAWL_LEN(files); i++)
		assert_true(mode_of(p, files[i]) == 0 || mode_of(p, files[i]) == modes[i]);
	n = slurp(p, "policy.yaml", text);
	assert_true(n == 0 ? mode_of(p, "policy.yaml") == 0 : n > 4 && strcmp(text + n - 4, "...\n") == 0);
	path_of(p, "keys/entry.key", path);
	if (mode_of(p, "keys/entry.key"))
		assert_int_equal(sign_key_load(path, &key, &err), 0);
	sign_key_free(key);
	n = slurp(p, "entry.vkey", text);
	if (mode_of(p, "entry.vkey"))
		assert_int_equal(vkey_parse((struct str){ text, n }, &vkey, &err), 0);
}

static void test_fresh(void **state)
{
	const struct place *p = *state;
	char text[16384];
	struct pawl_error err;
	mode_t before = umask(0);
	int r = run(p, "example.com/pawl-test", NULL, &err);

	(void)umask(before);
	assert_int_equal(r, 0);
	assert_complete(p);
	(void)slurp(p, "entry.vkey", text);
	assert_memory_equal(text, "example.com/pawl-test/entry+", 28);
}

static void test_modes_under_a_narrow_umask(void **state)
{
	const struct place *p = *state;
	struct pawl_error err;
	mode_t before = umask(077);
	int r = run(p, NULL, NULL, &err);

	(void)umask(before);
	assert_int_equal(r, 0);
	assert_complete(p);
}

static void test_again_changes_nothing(void **state)
{
	const struct place *p = *state;
	static char first[PAWL_LEN(files)][16384], now[16384];
	struct pawl_error err;
	char path[160];
	int fd;

	assert_int_equal(run(p, NULL, NULL, &err), 0);
	path_of(p, "policy.yaml", path);
	fd = open(path, O_WRONLY | O_TRUNC);
	assert_int_equal(write(fd, "mine\n...\n", 9), 9);
	assert_int_equal(fchmod(fd, 0640), 0);
	(void)close(fd);
	for (size_t i = 0; i < PAWL_LEN(files); i++)
		assert_true(slurp(p, files[i], first[i]) > 0);
	assert_int_equal(run(p, NULL, NULL, &err), 0);
	for (size_t i = 0; i < PAWL_LEN(files); i++) {
		assert_true(slurp(p, files[i], now) > 0);
		assert_string_equal(now, first[i]);
	}
	assert_int_equal(mode_of(p, "policy.yaml"), 0640);
}

/* ---- P12: each system call fails once, and the process dies before each once ---- */

struct nth {
	int left, error; /* error 0: die */
};

static int nth_before(void *arg)
{
	struct nth *n = arg;

	if (n->left-- != 0)
		return 0;
	if (!n->error)
		(void)kill(getpid(), SIGKILL);
	return n->error;
}

static void test_p12_each_call_fails_once(void **state)
{
	static const int errors[] = { ENOSPC, EIO };
	const struct place *p = *state;
	struct pawl_error err;
	int r = -1, n;

	for (size_t e = 0; e < PAWL_LEN(errors); e++) {
		for (n = 0; n < 1000; n++) {
			struct nth nth = { n, errors[e] };
			struct fs_io io = { nth_before, &nth, 100 };

			wipe(p);
			r = run(p, "example.com/pawl-test", &io, &err);
			if (nth.left >= 0)
				break; /* fewer calls than n: nothing failed */
			assert_true(r < 0);
			assert_int_equal(err.os_errno, errors[e]);
			assert_never_half(p);
			assert_int_equal(run(p, "example.com/pawl-test", NULL, &err), 0);
			assert_complete(p);
		}
		assert_int_equal(r, 0);
		assert_in_range(n, 30, 999);
	}
}

static void test_p12_killed_before_each_call(void **state)
{
	const struct place *p = *state;
	struct pawl_error err;
	int status = 0, n;

	for (n = 0; n < 1000; n++) {
		pid_t pid;

		wipe(p);
		pid = fork();
		assert_true(pid >= 0);
		if (pid == 0) {
			struct nth nth = { n, 0 };
			struct fs_io io = { nth_before, &nth, 100 };

			_exit(run(p, NULL, &io, &err) == 0 ? 0 : 1);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status))
			break;
		assert_int_equal(WTERMSIG(status), SIGKILL);
		assert_never_half(p);
		assert_int_equal(run(p, NULL, NULL, &err), 0);
		assert_complete(p);
	}
	assert_int_equal(status, 0);
	assert_in_range(n, 30, 999);
}

/* ---- what it refuses ---- */

static void put(const struct place *p, const char *name, const char *text, mode_t mode)
{
	char path[160];
	int fd;

	path_of(p, name, path);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	(void)close(fd);
}

static void break_lost_key(const struct place *p)
{
	char path[160];

	path_of(p, "keys/entry.key", path);
	assert_int_equal(unlink(path), 0);
}
static void break_lost_key_and_vkey(const struct place *p)
{
	char path[160];

	break_lost_key(p);
	path_of(p, "entry.vkey", path);
	assert_int_equal(unlink(path), 0);
	put(p, "log/journal-0", "x", 0600);
}
static void break_other_vkey(const struct place *p)
{
	put(p, "entry.vkey", "example.com/pawl-test/entry+f3794be2+ASmsuuFBvMrwsi4alNNNC8c2HlJtC/4SyJeUvJMilm3X\n", 0644);
}
static void break_open_key(const struct place *p)
{
	char path[160];

	path_of(p, "keys/entry.key", path);
	assert_int_equal(chmod(path, 0640), 0);
}
static void break_open_folder(const struct place *p)
{
	char path[160];

	path_of(p, "keys", path);
	assert_int_equal(chmod(path, 0750), 0);
}
static void break_writable_top(const struct place *p)
{
	assert_int_equal(chmod(p->dir, 0777), 0);
}
static void break_linked_policy(const struct place *p)
{
	char path[160];

	path_of(p, "policy.yaml", path);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(symlink("entry.vkey", path), 0);
}
static void break_file_for_folder(const struct place *p)
{
	char path[160];

	path_of(p, "state", path);
	assert_int_equal(rmdir(path), 0);
	put(p, "state", "x", 0600);
}

static const struct {
	const char *name, *origin;
	void (*breaks)(const struct place *);
	int want;
} refusals[] = {
	{ "S12: the key is gone, its vkey is there", NULL, break_lost_key, PAWL_E_KEY },
	{ "S12: the key is gone, entries are there", NULL, break_lost_key_and_vkey, PAWL_E_KEY },
	{ "a vkey of another key", NULL, break_other_vkey, PAWL_E_KEY },
	{ "a key that a group can read", NULL, break_open_key, PAWL_E_UNSAFE },
	{ "a key folder that a group can enter", NULL, break_open_folder, PAWL_E_UNSAFE },
	{ "a folder that anyone can write", NULL, break_writable_top, PAWL_E_UNSAFE },
	{ "a link where the policy should be", NULL, break_linked_policy, PAWL_E_UNSAFE },
	{ "a file where a folder should be", NULL, break_file_for_folder, PAWL_E_UNSAFE },
	{ "another name than the key's", "example.com/other", NULL, PAWL_E_CONFLICT },
};

static void test_refusals(void **state)
{
	const struct place *p = *state;
	char path[160];
	struct pawl_error err;

	for (size_t i = 0; i < PAWL_LEN(refusals); i++) {
		int r;

		wipe(p);
		assert_int_equal(run(p, NULL, NULL, &err), 0);
		if (refusals[i].breaks)
			refusals[i].breaks(p);
		r = run(p, refusals[i].origin, NULL, &err);
		if (r != refusals[i].want || !err.msg[0])
			fail_msg("%s: %d \"%s\", not %d", refusals[i].name, r, err.msg, refusals[i].want);
		path_of(p, "state", path); /* wipe() takes only a folder away */
		(void)unlink(path);
	}
}

static void test_bad_names(void **state)
{
	static const char *const names[] = { "", "a b", "a+b", "a\nb", "\xff" };
	const struct place *p = *state;
	char text[16384], big[PAWL_MAX_ORIGIN + 2];
	struct pawl_error err;

	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	assert_int_equal(run(p, big, NULL, &err), PAWL_E_USAGE);
	for (size_t i = 0; i < PAWL_LEN(names); i++)
		assert_int_equal(run(p, names[i], NULL, &err), PAWL_E_USAGE);
	assert_int_equal(slurp(p, "entry.vkey", text), 0);
	big[PAWL_MAX_ORIGIN] = '\0';
	assert_int_equal(run(p, big, NULL, &err), 0);
	assert_complete(p);
}

static void test_one_at_a_time(void **state)
{
	const struct place *p = *state;
	struct pawl_error err;
	int fd;

	assert_int_equal(run(p, NULL, NULL, &err), 0);
	fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(fs_lock(fd, &err), 0);
	assert_int_equal(run(p, NULL, NULL, &err), PAWL_E_BUSY);
	(void)close(fd);
	assert_int_equal(run(p, NULL, NULL, &err), 0);
}

static void test_read_is_bounded(void **state)
{
	const struct place *p = *state;
	PAWL_CLEANUP(buf_done) struct buf b = BUF_MAX(8);
	struct pawl_error err;
	char path[160];

	assert_int_equal(run(p, NULL, NULL, &err), 0);
	path_of(p, "policy.yaml", path);
	assert_int_equal(fs_read(AT_FDCWD, path, &b, &err), PAWL_E_LIMIT);
	buf_reset(&b);
	assert_int_equal(fs_read(AT_FDCWD, p->dir, &b, &err), PAWL_E_UNSAFE);
	assert_int_equal(fs_read(AT_FDCWD, "/dev/zero", &b, &err), PAWL_E_UNSAFE);
	assert_int_equal(fs_read(AT_FDCWD, "/nonexistent/x", &b, &err), PAWL_E_SYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_fresh, setup, teardown),
		cmocka_unit_test_setup_teardown(test_modes_under_a_narrow_umask, setup, teardown),
		cmocka_unit_test_setup_teardown(test_again_changes_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_p12_each_call_fails_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_p12_killed_before_each_call, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_at_a_time, setup, teardown),
		cmocka_unit_test_setup_teardown(test_read_is_bounded, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
