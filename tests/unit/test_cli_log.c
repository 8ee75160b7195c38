/* tests/unit/test_cli_log.c - `pawl log show | verify` as a person meets them: words, exit statuses, what an entry may
 * do to a terminal. */
#include "tests/support/log_fixture.h"

#include "daemon/cli/log.h"

static char home[64], dir[128], out_path[128];
static char *output; /* of the last run: stdout, then stderr */

/* Runs `pawl log …` with both streams in a file. Words are split at blanks; @ is the log's folder. */
static int run(const char *line)
{
	char text[4096], *argv[24];
	int argc = 0, keep[2], fd, status;
	size_t n = 0;

	argv[argc++] = text;
	n = (size_t)snprintf(text, sizeof(text), "log") + 1;
	for (const char *p = line; *p; p += strspn(p, " ")) {
		size_t len = strcspn(p, " ");

		assert_true(argc < 23);
		argv[argc++] = text + n;
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%.*s", *p == '@' ? dir : "",
				      (int)(len - (*p == '@')), p + (*p == '@')) +
		     1;
		p += len;
	}
	argv[argc] = NULL;
	(void)fflush(NULL);
	fd = open(out_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(fd >= 0);
	keep[0] = dup(1);
	keep[1] = dup(2);
	(void)dup2(fd, 1);
	(void)dup2(fd, 2);
	status = cli_log(argc, argv);
	(void)fflush(NULL);
	(void)dup2(keep[0], 1);
	(void)dup2(keep[1], 2);
	(void)close(keep[0]);
	(void)close(keep[1]);
	(void)close(fd);
	free(output);
	output = (char *)fx_read(home, "out", &n);
	return status;
}

static void expect(const char *line, int status, const char *has)
{
	int got = run(line);

	if (got != status || !strstr(output, has))
		fail_msg("log %s: status %d, expected %d and \"%s\" in:\n%s", line, got, status, has, output);
}

static void write_log(void)
{
	static const char *const bodies[] = {
		"{\"kind\":\"start\",\"mode\":\"enforce\",\"now\":\"2026-11-29T18:41:10.000000000Z\",\"policy\":{"
		"\"hash\":\"00\",\"name\":\"demo\"}}",
		"{\"action\":\"open\",\"agent\":\"local\",\"kind\":\"session\",\"now\":\"2026-11-29T18:41:11."
		"000000000Z\",\"root\":\"s_1\",\"session\":\"s_1\"}",
		("{\"kind\":\"decision\",\"now\":\"2026-11-29T18:41:12.000000000Z\",\"reason\":{\"code\":\"budget\","
		 "\"message\":\"run has 0 left\",\"rule\":\"run\"},"
		 "\"session\":\"s_1\",\"tool\":\"page.fetch\",\"verdict\":\"deny\"}"),
		"{\"kind\":\"throttle\",\"agent\":\"a\\u001b[2J\\u202ex\\u0000\",\"now\":\"\\n\"}",
	};
	struct sign_key *k = fx_key();
	struct buf note[4], rec = BUF_MAX(65535);
	struct str notes[4];
	uint8_t prev[32] = { 0 }, origin[32];

	crypto_hash_sha256(origin, (const uint8_t *)FX_ORIGIN, strlen(FX_ORIGIN));
	for (uint64_t i = 0; i < 4; i++) {
		char body[512];

		/* a NUL is not JSON for us: the last body goes without */
		(void)snprintf(body, sizeof(body), "%s", bodies[i]);
		if (strstr(body, "\\u0000"))
			memcpy(strstr(body, "\\u0000"), "\\u200b", 6);
		note[i] = BUF_MAX(65535);
		fx_entry(k, FX_ORIGIN, i, prev, body, &note[i]);
		notes[i] = buf_str(&note[i]);
	}
	record_build(origin, 0, notes, 4, &rec);
	fx_write(dir, "journal-00000000000000000000", rec.p, rec.n, 0600);
	buf_done(&rec);
	for (size_t i = 0; i < 4; i++)
		buf_done(&note[i]);
	sign_key_free(k);
}

static void test_verify(void **state)
{
	char last[128], line[512], *p;
	uint8_t *bytes;
	size_t n;

	(void)state;
	expect("verify @", 1, "entry.vkey"); /* no key: said, not guessed */
	expect("verify @ --key " FX_VKEY, 11, "NOTHING TO CHECK");
	write_log();
	expect("verify @ --key " FX_VKEY, 10, "OK, BUT NO ANCHOR");
	fx_write(home, "entry.vkey", FX_VKEY "\n", strlen(FX_VKEY) + 1, 0644);
	expect("verify @", 10, "/../entry.vkey"); /* which key was used */
	expect("verify --dir @", 10, "checked  4 entries, 0 to 3");
	(void)snprintf(line, sizeof(line), "verify %s", home); /* the folder of `pawl init` */
	expect(line, 10, "NO ANCHOR");
	p = strstr(output, "last     ");
	assert_non_null(p);
	assert_int_equal(sscanf(p, "last %100s", last), 1);
	(void)snprintf(line, sizeof(line), "verify @ --at-least %s", last); /* what was printed can be given */
	expect(line, 0, "OK: ");
	(void)snprintf(line, sizeof(line), "verify @ --json --at-least %s", last);
	expect(line, 0, "{\"status\":\"ok\",\"exit\":0,\"entries\":4,\"first\":0,\"last\":3,");
	last[strlen(last) - 1] ^= 1;
	(void)snprintf(line, sizeof(line), "verify @ --at-least %s", last);
	expect(line, 12, "TAMPERED");
	last[0] = '4';
	(void)snprintf(line, sizeof(line), "verify @ --at-least %s", last);
	expect(line, 13, "INCOMPLETE");
	expect("verify @ --key tests/vectors/log/checkpoint.vkey", 14, "WRONG KEY");
	bytes = fx_read(dir, "journal-00000000000000000000", &n);
	bytes[200] ^= 1;
	fx_write(dir, "journal-00000000000000000000", bytes, n, 0600);
	expect("verify @", 13, "INCOMPLETE"); /* the only batch: a torn one looks the same */
	free(bytes);
	write_log();
}

static void test_usage(void **state)
{
	(void)state;
	expect("", 2, "usage: pawl log");
	expect("--help", 0, "usage: pawl log");
	expect("verfy", 2, "unknown verb");
	expect("verify --help", 0, "exit status");
	expect("verify --nonsense", 2, "usage: pawl log verify");
	expect("verify @ @", 2, "one folder");
	expect("verify @ --dir @", 2, "one folder");
	expect("verify @ --at-least 7", 2, "SEQ:HASH");
	expect("verify @ --key /nonexistent", 1, "no key");
	expect("verify @ --key not+a+key", 1, "not a verifier key");
	expect("verify /nonexistent/log --key " FX_VKEY, 1, "/nonexistent/log");
	expect("show --help", 0, "usage: pawl log show");
	expect("show @ --from x", 2, "usage: pawl log show");
	expect("show @ --to -1", 2, "usage: pawl log show");
	expect("show @ @", 2, "usage: pawl log show");
	expect("show /nonexistent/log", 1, "/nonexistent/log");
}

static size_t lines(void)
{
	size_t n = 0;

	for (const char *p = output; *p; p++)
		n += *p == '\n';
	return n;
}

static void test_show(void **state)
{
	(void)state;
	write_log();
	expect("show @", 0,
	       "2 2026-11-29T18:41:12.000000000Z decision deny page.fetch session=s_1 reason=budget rule=run: run has "
	       "0 left\n");
	assert_int_equal(lines(), 4); /* U14: an entry is a line, whatever is in it */
	assert_non_null(strstr(output, "a\\u{1b}[2J\\u{202e}x\\u{200b}"));
	assert_null(strchr(output, 0x1b));
	expect("show @ --from 1 --to 2", 0, "session open");
	assert_int_equal(lines(), 2);
	expect("show @ --kind decision", 0, "page.fetch");
	assert_int_equal(lines(), 1);
	expect("show @ --session s_1", 0, "agent=local");
	assert_int_equal(lines(), 2);
	expect("show @ --json --kind start", 0, "{\"kind\":\"start\",\"mode\":\"enforce\"");
	assert_int_equal(lines(), 1);
	expect("show @ --raw --to 0", 0, "pawl-entry/v1\nexample.com/pawl-test\n0\n");
	expect("show @ --from 99", 0, "");
	assert_int_equal(lines(), 0);
}

static int setup(void **state)
{
	(void)state;
	fx_dir(home);
	(void)snprintf(dir, sizeof(dir), "%s/log", home);
	(void)snprintf(out_path, sizeof(out_path), "%s/out", home);
	return mkdir(dir, 0700);
}

static int teardown(void **state)
{
	(void)state;
	free(output);
	fx_remove(dir);
	fx_remove(home);
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(test_verify), cmocka_unit_test(test_usage),
						   cmocka_unit_test(test_show) };

	return cmocka_run_group_tests(tests, setup, teardown);
}
