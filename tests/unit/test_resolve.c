/* tests/unit/test_resolve.c - the resolver on real folders, links and (as root) mounts. */
#include "daemon/resolve.h"
#include "tests/support/skip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* root/{work/{a.txt,deep/}, home/{.zshrc -> ../dots/zshrc}, dots/zshrc, links…}, outside/secret; root-link -> root */
struct tree {
	char top[64]; /* real path */
	char root[96];
};

static void make_file(const char *top, const char *name)
{
	char path[256];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", top, name);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
}

static void make_dir(const char *top, const char *name)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", top, name);
	assert_int_equal(mkdir(path, 0700), 0);
}

static void make_link(const char *top, const char *name, const char *target)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", top, name);
	assert_int_equal(symlink(target, path), 0);
}

static int setup(void **state)
{
	static const char *const dirs[] = { "root",      "root/work",   "root/work/deep", "root/home",
					    "root/dots", "root/closed", "outside" };
	struct tree *t = calloc(1, sizeof(*t));
	char made[] = "/tmp/pawl-resolve-XXXXXX", real[PATH_MAX];

	assert_non_null(t);
	assert_non_null(mkdtemp(made));
	assert_non_null(realpath(made, real)); /* /tmp itself may be a link */
	assert_true(strlen(real) < sizeof(t->top));
	memcpy(t->top, real, strlen(real) + 1);
	(void)snprintf(t->root, sizeof(t->root), "%s/root", t->top);
	for (size_t i = 0; i < PAWL_LEN(dirs); i++)
		make_dir(t->top, dirs[i]);
	make_file(t->top, "root/work/a.txt");
	make_file(t->top, "root/dots/zshrc");
	make_file(t->top, "outside/secret");
	make_link(t->top, "root/home/.zshrc", "../dots/zshrc");
	make_link(t->top, "root/out", "../outside");
	make_link(t->top, "root/dangling", "../outside/not-there");
	make_link(t->top, "root/dangling-dir", "../outside/not-there");
	make_link(t->top, "root/loop", "loop");
	make_link(t->top, "root/magic", "/proc/self/cwd");
	make_link(t->top, "root/abs", "/proc/self");
	make_link(t->top, "root-link", "root");
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	struct tree *t = *state;
	char command[128];

	(void)snprintf(command, sizeof(command), "rm -rf %s", t->top);
	if (strncmp(t->top, "/", 1) == 0 && strstr(t->top, "pawl-resolve-"))
		(void)!system(command);
	free(t);
	return 0;
}

#define N16  "aaaaaaaaaaaaaaaa"
#define N256 N16 N16 N16 N16 N16 N16 N16 N16 N16 N16 N16 N16 N16 N16 N16 N16

/* root and want: "@" stands for the top of the tree; want NULL = unresolved */
static const struct {
	const char *id, *root, *path, *want;
} cases[] = {
	{ "a file", "@/root", "work/a.txt", "@/root/work/a.txt" },
	{ "absolute", "@/root", "@/root/work/a.txt", "@/root/work/a.txt" },
	{ "root itself", "@/root", ".", "@/root" },
	{ "root itself, absolute", "@/root", "@/root", "@/root" },
	{ "root with slashes", "@/root//", "@/root//work//a.txt", "@/root/work/a.txt" },
	{ "root is a link", "@/root-link", "work/a.txt", "@/root/work/a.txt" },
	{ "root is a link, absolute", "@/root-link", "@/root-link/work", "@/root/work" },
	{ "a longer name is not below root", "@/roo", "@/root/work", "@/root/work" },
	{ "no root, absolute", NULL, "@/root/work", "@/root/work" },
	{ "no root, relative", NULL, "work", NULL },
	{ "relative root", "root", "work", NULL },
	{ "root is missing", "@/none", "work", NULL },
	{ "root is a file", "@/root/work/a.txt", "x", NULL },
	{ "D13 a dot-file that is a link", "@/root", "home/.zshrc", "@/root/dots/zshrc" },
	{ "D13 its target", "@/root", "dots/zshrc", "@/root/dots/zshrc" },
	{ "a link out of the root shows where it leads", "@/root", "out/secret", "@/outside/secret" },
	{ "dots out of the root show where they lead", "@/root", "../outside/secret", "@/outside/secret" },
	{ "dots through a link are the link's", "@/root", "out/../root/work", "@/root/work" },
	{ "new file", "@/root", "work/new.txt", "@/root/work/new.txt" },
	{ "new folders", "@/root", "work/x/y/z.txt", "@/root/work/x/y/z.txt" },
	{ "new folder, slash", "@/root", "work/x/", "@/root/work/x" },
	{ "new with single dots", "@/root", "work/./x/./y/.", "@/root/work/x/y" },
	{ "new file behind a link out", "@/root", "out/new", "@/outside/new" },
	{ "new, absolute", "@/root", "@/root/new", "@/root/new" },
	{ "new at the top of all", NULL, "/pawl-not-there/x", "/pawl-not-there/x" },
	{ "dots behind what is missing", "@/root", "work/x/../../../outside", NULL },
	{ "dots behind what is there", "@/root", "work/deep/../a.txt", "@/root/work/a.txt" },
	{ "a dangling link is not a missing file", "@/root", "dangling", NULL },
	{ "below a dangling link", "@/root", "dangling-dir/x/y", NULL },
	{ "a link to itself", "@/root", "loop", NULL },
	{ "a magic link", "@/root", "magic/x", NULL },
	{ "a root through a magic link", "/proc/self/cwd", ".", NULL },
	{ "another file system through a link", "@/root", "abs/status", NULL },
	{ "below a file", "@/root", "work/a.txt/x", NULL },
	{ "a file with a slash", "@/root", "work/a.txt/", NULL },
	{ "empty", "@/root", "", NULL },
	{ "a mount from /", NULL, "/proc/self/status", NULL },
	{ "a name of 256 bytes", "@/root", N256, NULL },
	{ "32 missing parts", "@/root", "n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n",
	  "@/root/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n" },
	{ "33 missing parts", "@/root", "n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n/n", NULL },
};

static struct str expand(const struct tree *t, const char *z, char out[static 1024])
{
	if (!z)
		return STR_NONE;
	(void)snprintf(out, 1024, "%s%s", *z == '@' ? t->top : "", z + (*z == '@'));
	return str_of(out);
}

static void test_cases(void **state)
{
	const struct tree *t = *state;
	struct resolver res = resolve_kernel();

	for (size_t i = 0; i < PAWL_LEN(cases); i++) {
		char root[1024], path[1024], want[1024], out[PATH_MAX] = "untouched";
		int r = res.resolve(res.arg, expand(t, cases[i].root, root), expand(t, cases[i].path, path), out,
				    sizeof(out));

		(void)expand(t, cases[i].want ? cases[i].want : "untouched", want);
		if ((r == 0) != (cases[i].want != NULL) || r > 0 || strcmp(out, want) != 0)
			fail_msg("%s: %d %s, not %s", cases[i].id, r, out, want);
	}
}

static void test_lengths(void **state)
{
	const struct tree *t = *state;
	char path[2 * PATH_MAX], out[PATH_MAX], want[1024];
	struct str root = str_of(t->root);

	/* exactly fitting, one byte short */
	(void)expand(t, "@/root/work", want);
	assert_int_equal(resolve_path(NULL, root, STR("work"), out, strlen(want) + 1), 0);
	assert_int_equal(resolve_path(NULL, root, STR("work"), out, strlen(want)), PAWL_E_LIMIT);
	/* as given: PATH_MAX counts the NUL */
	memset(path, '/', sizeof(path));
	assert_int_equal(resolve_path(NULL, STR_NONE, (struct str){ path, PATH_MAX - 1 }, out, sizeof(out)), 0);
	assert_string_equal(out, "/");
	assert_true(resolve_path(NULL, STR_NONE, (struct str){ path, PATH_MAX }, out, sizeof(out)) < 0);
	assert_true(resolve_path(NULL, (struct str){ path, PATH_MAX }, STR("a"), out, sizeof(out)) < 0);
	assert_true(resolve_path(NULL, root, (struct str){ "work\0/../../x", 13 }, out, sizeof(out)) < 0);
	/* short as given, too long once real */
	path[0] = 'w';
	for (size_t i = 0; i < PATH_MAX - 1; i++)
		path[i] = i % 200 == 199 ? '/' : 'w';
	assert_true(resolve_path(NULL, root, (struct str){ path, PATH_MAX - 1 }, out, sizeof(out)) < 0);
}

static void test_no_descriptor_stays(void **state)
{
	const struct tree *t = *state;
	char out[PATH_MAX];
	int before = dup(0), after;

	assert_true(before >= 0);
	assert_int_equal(close(before), 0);
	for (size_t i = 0; i < PAWL_LEN(cases); i++) {
		char root[1024], path[1024];

		(void)resolve_path(NULL, expand(t, cases[i].root, root), expand(t, cases[i].path, path), out,
				   sizeof(out));
	}
	after = dup(0);
	assert_int_equal(after, before);
	assert_int_equal(close(after), 0);
}

static int in_own_mounts(const struct tree *t)
{
	char at[128], out[PATH_MAX];
	struct str root = str_of(t->root);

	(void)snprintf(at, sizeof(at), "%s/work/deep", t->root);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", at, "tmpfs", 0, NULL) < 0)
		return 77;
	if (resolve_path(NULL, root, STR("work/deep"), out, sizeof(out)) == 0 ||
	    resolve_path(NULL, root, STR("work/deep/x"), out, sizeof(out)) == 0)
		return 1; /* a mount below the root was crossed */
	if (resolve_path(NULL, root, STR("work/new"), out, sizeof(out)) != 0)
		return 2;
	/* the root itself may be a mount */
	if (resolve_path(NULL, str_of(at), STR("x"), out, sizeof(out)) != 0 || strncmp(out, at, strlen(at)) != 0)
		return 3;
	if (resolve_path(NULL, str_of(at), STR("../a.txt"), out, sizeof(out)) == 0)
		return 4; /* out over the mount's edge */
	return 0;
}

static void test_mounts(void **state)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(in_own_mounts(*state));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip_aloud("root, for mounts (unshare)");
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int without_permission(const struct tree *t)
{
	char closed[128], out[PATH_MAX];

	(void)snprintf(closed, sizeof(closed), "%s/closed", t->root);
	if (chmod(closed, 0) < 0 || chmod(t->root, 0755) < 0 || chmod(t->top, 0755) < 0)
		return 1;
	if (geteuid() == 0 && setuid(65534) < 0)
		return 77;
	return resolve_path(NULL, str_of(t->root), STR("closed/x"), out, sizeof(out)) == 0 ? 2 : 0;
}

static void test_no_permission_is_unresolved(void **state)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(without_permission(*state));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* An older valgrind (3.19) answers openat2 itself: "no such call". Then there is nothing to test, for each path is refused. */
static bool valgrind_without_openat2(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload && strstr(preload, "vgpreload") && syscall(SYS_openat2, -1, NULL, NULL, (size_t)0) < 0 && errno == ENOSYS;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_no_descriptor_stays),
		cmocka_unit_test(test_mounts),
		cmocka_unit_test(test_no_permission_is_unresolved),
	};

	if (valgrind_without_openat2()) {
		print_message("SKIPPED: this valgrind does not know openat2\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, setup, teardown);
}
