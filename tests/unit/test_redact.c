/* tests/unit/test_redact.c - what is taken out of arguments and command lines before they are kept, and what is not. U10, U12. */
#include "policy/redact.h"

#include "tests/support/fail_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct redact_path own_paths[] = { { { "password", sizeof("password") - 1 }, false }, { { "db.note", sizeof("db.note") - 1 }, false }, { { "api_nr", sizeof("api_nr") - 1 }, true }, { { "a.b", sizeof("a.b") - 1 }, true } };
static const struct redact_set own = { own_paths, PAWL_LEN(own_paths) };
#define R "[redacted]"

/* ---- JSON ---- */

static const struct {
	const char *name, *in, *out; /* out NULL: as it was */
} docs[] = {
	{ "U10", "{\"a\":{\"headers\":[{\"authorization\":\"Bearer sk-test-1\"}]},\"cookie\":\"c\",\"private_key\":\"k\"}",
	  "{\"a\":{\"headers\":[{\"authorization\":\"" R "\"}]},\"cookie\":\"" R "\",\"private_key\":\"" R "\"}" },
	{ "plain things stay", "{\"q\":\"cats\",\"n\":5,\"ok\":true,\"x\":null,\"f\":1.5,\"e\":{},\"l\":[]}", NULL },
	{ "near names stay", "{\"tokens\":5,\"max_tokens\":9,\"author\":\"me\",\"key\":\"k\",\"keyboard\":\"x\",\"sessions\":\"2\",\"compass\":\"n\"}", NULL },
	{ "case and marks", "{\"API-Key\":\"k1\",\"apiKey\":\"k2\",\"X_Api_Key\":\"k3\",\"Set-Cookie\":\"k4\",\"clientSecret\":\"k5\",\"AWS_SECRET_ACCESS_KEY\":\"k6\"}",
	  "{\"API-Key\":\"" R "\",\"apiKey\":\"" R "\",\"X_Api_Key\":\"" R "\",\"Set-Cookie\":\"" R "\",\"clientSecret\":\"" R
	  "\",\"AWS_SECRET_ACCESS_KEY\":\"" R "\"}" },
	{ "whole values", "{\"passwords\":[\"a\",\"b\"],\"secret\":{\"x\":1},\"pwd\":1234,\"token\":null,\"session\":true,\"token2\":\"t\"}",
	  "{\"passwords\":\"" R "\",\"secret\":\"" R "\",\"pwd\":\"" R "\",\"token\":null,\"session\":true,\"token2\":\"" R "\"}" },
	{ "pairs", "[{\"name\":\"Authorization\",\"value\":\"abc\"},{\"Key\":\"x-api-key\",\"values\":[\"v\"]},{\"name\":\"Accept\",\"value\":\"json\"}]",
	  "[{\"name\":\"Authorization\",\"value\":\"" R "\"},{\"Key\":\"x-api-key\",\"values\":\"" R "\"},{\"name\":\"Accept\",\"value\":\"json\"}]" },
	{ "pairs as lists", "[[\"Cookie\",\"a=b\"],[\"Accept\",\"json\"],[\"cookie\",\"x\",\"y\"]]", "[[\"Cookie\",\"" R "\"],[\"Accept\",\"json\"],[\"cookie\",\"x\",\"y\"]]" },
	{ "argument lists", "{\"argv\":[\"curl\",\"-H\",\"Authorization: Bearer abc\",\"--token\",\"t\",\"--verbose\",\"--password\",\"--x\"]}",
	  "{\"argv\":[\"curl\",\"-H\",\"Authorization: " R "\",\"--token\",\"" R "\",\"--verbose\",\"--password\",\"--x\"]}" },
	{ "usual names", "{\"DB_PASS\":\"p\",\"smtpPass\":\"p\",\"pw\":\"p\",\"db_creds\":{\"u\":\"p\"},\"AccountKey\":\"k\",\"master-key\":\"k\",\"PIN\":1234,\"mnemonic\":\"a b\"}",
	  "{\"DB_PASS\":\"" R "\",\"smtpPass\":\"" R "\",\"pw\":\"" R "\",\"db_creds\":\"" R "\",\"AccountKey\":\"" R "\",\"master-key\":\"" R "\",\"PIN\":\"" R
	  "\",\"mnemonic\":\"" R "\"}" },
	{ "words that only end so", "{\"bypass\":\"x\",\"overpass\":\"x\",\"spin\":1,\"config\":2,\"passing\":\"y\",\"pastoral\":\"z\"}", NULL },
	{ "inside a text", "{\"body\":\"{\\\"password\\\": \\\"hunter2\\\", \\\"n\\\": 5}\",\"cmd\":\"export A=1 GH_TOKEN=abc; run\"}",
	  "{\"body\":\"{\\\"password\\\": \\\"" R "\\\", \\\"n\\\": 5}\",\"cmd\":\"export A=1 GH_TOKEN=" R "; run\"}" },
	{ "keys", "{\"ghp_0123456789abc\":1}", "{\"" R "\":1}" },
	{ "own path, own name", "{\"PassWord\":\"p\",\"db\":[{\"note\":\"n\",\"other\":\"o\"}],\"x\":{\"db\":{\"note\":\"n\"}},\"y\":{\"api-nr\":7},\"q\":{\"a\":{\"b\":1}},\"b\":2}",
	  "{\"PassWord\":\"" R "\",\"db\":[{\"note\":\"" R "\",\"other\":\"o\"}],\"x\":{\"db\":{\"note\":\"n\"}},\"y\":{\"api-nr\":\"" R "\"},\"q\":{\"a\":{\"b\":\"" R
	  "\"}},\"b\":2}" },
	{ "own name in a text", "{\"t\":\"api_nr=77 x\"}", "{\"t\":\"api_nr=" R " x\"}" },
};

static void test_json(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(docs); i++) {
		struct buf out = BUF_MAX(1u << 16);
		struct json *j = NULL;

		assert_int_equal(json_parse(str_of(docs[i].in), PAWL_MAX_DEPTH, &j, NULL), 0);
		redact_json(&own, j, &out);
		if (!buf_ok(&out) || !str_is(buf_str(&out), docs[i].out ? docs[i].out : docs[i].in))
			fail_msg("%s: %.*s", docs[i].name, STR_ARG(buf_str(&out)));
		json_free(j);
		buf_done(&out);
	}
}

/* As deep as the wire lets it be: a secret at the bottom is found. */
static void test_deep(void **state)
{
	struct buf in = BUF_MAX(4096), out = BUF_MAX(4096);
	struct json *j = NULL;

	(void)state;
	for (int i = 0; i < PAWL_MAX_DEPTH; i++)
		buf_puts(&in, i + 1 < PAWL_MAX_DEPTH ? "{\"a\":" : "{\"password\":\"hunter2\"}");
	for (int i = 1; i < PAWL_MAX_DEPTH; i++)
		buf_putc(&in, '}');
	assert_int_equal(json_parse(buf_str(&in), PAWL_MAX_DEPTH, &j, NULL), 0);
	redact_json(NULL, j, &out);
	assert_true(buf_ok(&out) && memmem(out.p, out.n, R, strlen(R)) && !memmem(out.p, out.n, "hunter2", 7));
	json_free(j);
	buf_done(&in);
	buf_done(&out);
}

/* ---- texts ---- */

#define KEY "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nAAAA\n-----END RSA PRIVATE KEY-----"
static const struct {
	const char *in, *out;
} texts[] = {
	{ "", NULL },
	{ "search for the bearer of good news", NULL },
	{ "Basic understanding, no secret", NULL },
	{ "this session: we look at tokens, and at 5 tokens", NULL },
	{ "pip install sk-learn task-12345678", NULL },
	{ "see https://example.com/a@b and http://h:80/x@y and ssh://git@host/r", NULL },
	{ "author=me monkey=2 keyboard: x", NULL },
	{ "Bearer sk-test-1", "Bearer " R },
	{ "x bearer abcdefghijklmnop y", "x bearer " R " y" },
	{ "Basic dXNlcjpwYXNz!", "Basic dXNlcjpwYXNz!" },
	{ "Basic dXNlcjpwYXNzOg==!", "Basic " R "!" },
	{ "use sk-proj-abcdefghijklmnop now", "use " R " now" },
	{ "a=ghp_0123456789abc,b", "a=" R ",b" },
	{ "AKIAIOSFODNN7EXAMPLE/x", R "/x" },
	{ "AKIA is short", NULL },
	{ "t: eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_d.", "t: " R },
	{ "key\n" KEY "\nend", "key\n" R "\nend" },
	{ "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn", R },
	{ "-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----", NULL },
	{ "PRIVATE+KEY+log+1234abcd+AbCd/+=", R },
	{ "postgres://me:p%40ss@db:5432/x", "postgres://" R "@db:5432/x" },
	{ "postgres://me:pa/ss@db/x", "postgres://" R "@db/x" },
	{ "https://0123456789abcdef0123@host/x", "https://" R "@host/x" },
	{ "go to https://h/?api_key=abc&x=1#f", "go to https://h/?api_key=" R "&x=1#f" },
	{ "params[password]=abc&y=2", "params[password]=" R "&y=2" },
	{ "password = 'a b', user = 'me'", "password = '" R "', user = 'me'" },
	{ "password: correct horse battery\nuser: me", "password: " R "\nuser: me" },
	{ "\"token\": 123, \"x\": 1", "\"token\": " R ", \"x\": 1" },
	{ "{\"secret\":null,\"cookies\":[{\"a\":1}]}", "{\"secret\":null,\"cookies\":" R },
	{ "\\\"password\\\":\\\"hunter2\\\",", "\\\"password\\\":\\\"" R "\\\"," },
	{ "curl -H 'Authorization: token abc' https://h", "curl -H 'Authorization: " R "' https://h" },
	{ "curl --header \"X-Auth-Token: abc\" x", "curl --header \"X-Auth-Token: " R "\" x" },
	{ "Authorization=Bearer abc def", "Authorization=" R " def" },
	{ "login --password hunter2 --verbose", "login --password " R " --verbose" },
	{ "login --password --verbose", NULL },
	{ "curl -u me:hunter2 https://h", "curl -u me:" R " https://h" },
	{ "curl --user='me:hunter2' x; curl --user me:h2", "curl --user='me:" R "' x; curl --user me:" R },
	{ "docker run -u 1000:1000 x -u root", NULL },
	{ "sh -c 'mysqldump -u me -phunter2 db' | ssh -p 22 h", "sh -c 'mysqldump -u me -p" R " db' | ssh -p 22 h" },
	{ "mysql -p db; ssh -p 22 h", NULL },
	{ "sshpass -p hunter2 ssh h; ssh -p 22 h", "sshpass -p " R " ssh h; ssh -p 22 h" },
	{ "<password>hunter2</password><b>x</b>", "<password>" R "</password><b>x</b>" },
	{ "<password><b/></password> <secret>", NULL },
	{ "next=/x%3Fpassword%3Dhunter2%26y%3D1", "next=/x%3Fpassword%3D" R "%26y%3D1" },
	{ "login --password=hunter2", "login --password=" R },
	{ "AWS_SECRET_ACCESS_KEY=abc/def+g cmd", "AWS_SECRET_ACCESS_KEY=" R " cmd" },
	{ "password := x", "password := " R },
	{ "secret => 'x'", "secret => '" R "'" },
	{ "if token == \"x\"", "if token == \"" R "\"" },
	{ "password=", NULL },
	{ "password", NULL },
	{ "x\\nsk-abc123def\\ny", "x\\n" R "\\ny" },
	{ "\xc3\xa4password=\xc3\xb6\xc3\xbc \xe2\x82\xac", "\xc3\xa4password=" R " \xe2\x82\xac" },
	{ "session=abc; x", "session=" R "; x" },
	{ "session: abcdef", "session: " R },
	{ "x --password -- hunter2 y; x --password -- -h2", "x --password -- " R " y; x --password -- " R },
	{ "curl -uadmin:h2 u; curl -sSu admin:h2 u; curl -sU'admin:h 2' u", "curl -uadmin:" R " u; curl -sSu admin:" R " u; curl -sU'admin:" R "' u" },
	{ "http -a me:h2 :80/x; xh -ame:h2 h", "http -a me:" R " :80/x; xh -ame:" R " h" },
	{ "curl -sS https://x -o u:x -Hu:x; ls -a x:y", NULL },
	{ "sshpass -ph2 ssh h; timeout 5 /usr/bin/mysql -NBph2 -P3306 d", "sshpass -p" R " ssh h; timeout 5 /usr/bin/mysql -NBp" R " -P3306 d" },
	{ "mysql -p'a b' d; mysqldump -p\"h2\" d", "mysql -p'" R "' d; mysqldump -p\"" R "\" d" },
	{ "sh -c \"mysql -p\" x; find /var/lib/mysql -print -perm 600; docker run --name mysql -p3306:3306 y", NULL },
	{ "timeout 5 ls -pa", NULL },
	{ "python -c \"os.environ['TOKEN']='h2'; x\"", "python -c \"os.environ['TOKEN']='" R "'; x\"" },
	{ "env[\\\"TOKEN\\\"] = \\\"h2\\\", environb[b'TOKEN']=b'h2'", "env[\\\"TOKEN\\\"] = \\\"" R "\\\", environb[b'TOKEN']=b'" R "'" },
	{ "x = os.environ['TOKEN']; y['n'] = 'z'; [\"a\", \"token\"], \"b\"", NULL },
	{ "run([\"x\", \"--password\", \"h2\", \"y\"])", "run([\"x\", \"--password\", \"" R "\", \"y\"])" },
	{ "get(u, auth=('me','h)2'), n=1)", "get(u, auth=" R " n=1)" },
	{ "auth=HTTPBasicAuth(\n  'me',\n  f(\"h2\"),\n) x", "auth=" R " x" },
	{ "{'auth': ('me', 'h2'), 'n': 1} tokens=['a'] token=['a', 'b'] x", "{'auth': " R ", 'n': 1} tokens=['a'] token=" R " x" },
	{ "password=h(2 x\ny", "password=" R "\ny" },
	{ "aws configure set aws_secret_access_key h2 --profile x", "aws configure set aws_secret_access_key " R " --profile x" },
	{ "npm config set //r.example/:_authToken h2; jq --arg token h2 .", "npm config set //r.example/:_authToken " R "; jq --arg token " R " ." },
	{ "headers=[('Cookie', 'h2'), (\"x\",\"y\")], os.getenv(\"API_KEY\", \"h2\")", "headers=[('Cookie', '" R "'), (\"x\",\"y\")], os.getenv(\"API_KEY\", \"" R "\")" },
	{ "[[\"password\",\"h2\"],[\"user\",\"me\"]] for t in ('token', n): pass", "[[\"password\",\"" R "\"],[\"user\",\"me\"]] for t in ('token', n): pass" },
	{ "openssl rsa -passin pass:h2 -in k.pem", "openssl rsa -passin pass:" R " -in k.pem" },
	{ "redis-cli -h db -a h2 ping; ls -a x", "redis-cli -h db -a " R " ping; ls -a x" },
	{ "sshpass -p 12:34 ssh h", "sshpass -p " R " ssh h" },
	{ "docker run --name mongo -p 27017:27017 mongo; mongodump -u me -p h2", "docker run --name mongo -p 27017:27017 mongo; mongodump -u me -p " R },
	{ "zip -rP h2 x.zip d && unzip x.zip -d p; 7z x -ph2 a; plink -pw h2 -P 22 h", "zip -rP " R " x.zip d && unzip x.zip -d p; 7z x -p" R " a; plink -pw " R " -P 22 h" },
	{ "AccountName=n;AccountKey=abc==;EndpointSuffix=x", "AccountName=n;AccountKey=" R ";EndpointSuffix=x" },
	{ "https://b.s3.example/k?X-Amz-Signature=0af&x=1 https://s/?se=1&sig=h%2B2&sp=r", "https://b.s3.example/k?X-Amz-Signature=" R "&x=1 https://s/?se=1&sig=" R "&sp=r" },
	{ "post to https://hooks.slack.com/services/T0/B0/abc, or https://api.telegram.org/bot123:AbC-d/getMe now", "post to https://" R ", or https://" R " now" },
	{ "see hooks.slack.com/services/ and hvs. or glsa_x", NULL },
	{ "vault login hvs.CAESIJabcdef0123", "vault login " R },
	{ "git commit -m 'token rework'; we set the password in a file; grep -rn api_key src", NULL },
};

static void test_texts(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(texts); i++) {
		size_t n = strlen(texts[i].in);
		char *own_bytes = malloc(n ? n : 1); /* so that a read beyond them shows */
		struct buf out = BUF_MAX(1u << 16);

		assert_non_null(own_bytes);
		memcpy(own_bytes, texts[i].in, n);
		redact_text(NULL, (struct str){ own_bytes, n }, false, &out);
		if (out.failed || !str_eq(buf_str(&out), str_of(texts[i].out ? texts[i].out : texts[i].in)))
			fail_msg("%s: %.*s", texts[i].in, STR_ARG(buf_str(&out)));
		buf_done(&out);
		free(own_bytes);
	}
}

/* ---- command lines ---- */

#define A(s) { s, sizeof(s) - 1 }
static const struct {
	struct str argv;
	const char *out;
} lines[] = {
	{ A(""), "[]" },
	{ A("ls\0-l\0"), "[\"ls\",\"-l\"]" },
	{ A("ls\0-l"), "[\"ls\",\"-l\"]" },
	{ A("a\0\0b\0"), "[\"a\",\"\",\"b\"]" },
	{ A("x\0--password\0hunter2\0--token=abc\0"), "[\"x\",\"--password\",\"" R "\",\"--token=" R "\"]" },
	{ A("x\0-token\0abc\0y\0"), "[\"x\",\"-token\",\"" R "\",\"y\"]" },
	{ A("curl\0-H\0Authorization: Bearer abc\0-u\0me:pw\0https://a:b@h\0"),
	  "[\"curl\",\"-H\",\"Authorization: " R "\",\"-u\",\"me:" R "\",\"https://" R "@h\"]" },
	{ A("docker\0run\0-u\0001000:1000\0--user=me:pw\0"), "[\"docker\",\"run\",\"-u\",\"1000:1000\",\"--user=me:" R "\"]" },
	{ A("/usr/bin/mysql\0-phunter2\0-p\0db\0"), "[\"/usr/bin/mysql\",\"-p" R "\",\"-p\",\"db\"]" },
	{ A("mkdir\0-pv\0d\0"), "[\"mkdir\",\"-pv\",\"d\"]" },
	{ A("sshpass\0-p\0hunter2\0ssh\0"), "[\"sshpass\",\"-p\",\"" R "\",\"ssh\"]" },
	{ A("env\0GITHUB_TOKEN=abc\0make\0"), "[\"env\",\"GITHUB_TOKEN=" R "\",\"make\"]" },
	{ A("sh\0-c\0echo $PW | login --password hunter2\0"), "[\"sh\",\"-c\",\"echo $PW | login --password " R "\"]" },
	{ A("sshpass\0-phunter2\0ssh\0"), "[\"sshpass\",\"-p" R "\",\"ssh\"]" },
	{ A("sshpass\0-vp\0--h2\0ssh\0"), "[\"sshpass\",\"-vp\",\"" R "\",\"ssh\"]" },
	{ A("timeout\0-k\0001\0005\0mysql\0-ph2\0"), "[\"timeout\",\"-k\",\"1\",\"5\",\"mysql\",\"-p" R "\"]" },
	{ A("sudo\0-u\0me\0env\0A=b\0/usr/bin/mariadb-dump\0-NBph2\0-P3306\0"),
	  "[\"sudo\",\"-u\",\"me\",\"env\",\"A=b\",\"/usr/bin/mariadb-dump\",\"-NBp" R "\",\"-P3306\"]" },
	{ A("nice\0-n5\0sshpass\0-p\0h2\0ssh\0h\0curl\0-uadmin:h2\0"), "[\"nice\",\"-n5\",\"sshpass\",\"-p\",\"" R "\",\"ssh\",\"h\",\"curl\",\"-uadmin:" R "\"]" },
	{ A("curl\0-uadmin:h2\0-sSu\0admin:h2\0-sUme:h2\0--proxy-user=me:h2\0"),
	  "[\"curl\",\"-uadmin:" R "\",\"-sSu\",\"admin:" R "\",\"-sUme:" R "\",\"--proxy-user=me:" R "\"]" },
	{ A("http\0-a\0me:h2\0h\0"), "[\"http\",\"-a\",\"me:" R "\",\"h\"]" },
	{ A("curl\0-sS\0-ou:x\0-Hu:x\0-u1000:1000\0https://x\0"), "[\"curl\",\"-sS\",\"-ou:x\",\"-Hu:x\",\"-u1000:1000\",\"https://x\"]" },
	{ A("mysql\0-port\0003306\0"), "[\"mysql\",\"-p" R "\",\"3306\"]" }, /* to mysql this is the password "ort" */
	{ A("mysql\0--port\0003306\0-P\0003306\0"), "[\"mysql\",\"--port\",\"3306\",\"-P\",\"3306\"]" },
	{ A("timeout\0005\0ls\0-pa\0-p\0x\0"), "[\"timeout\",\"5\",\"ls\",\"-pa\",\"-p\",\"x\"]" },
	{ A("find\0/var/lib/mysql\0-path\0x\0-print0\0"), "[\"find\",\"/var/lib/mysql\",\"-path\",\"x\",\"-print0\"]" },
	{ A("docker\0run\0--name\0mysql\0-p3306:3306\0x\0"), "[\"docker\",\"run\",\"--name\",\"mysql\",\"-p3306:3306\",\"x\"]" },
	{ A("aws\0configure\0set\0aws_secret_access_key\0h2\0--profile\0x\0"),
	  "[\"aws\",\"configure\",\"set\",\"aws_secret_access_key\",\"" R "\",\"--profile\",\"x\"]" },
	{ A("npm\0config\0set\0//r/:_authToken\0h2\0"), "[\"npm\",\"config\",\"set\",\"//r/:_authToken\",\"" R "\"]" },
	{ A("jq\0--arg\0token\0h2\0.\0"), "[\"jq\",\"--arg\",\"token\",\"" R "\",\".\"]" },
	{ A("grep\0-rn\0api_key\0src\0"), "[\"grep\",\"-rn\",\"api_key\",\"src\"]" },
	{ A("git\0config\0token\0-l\0"), "[\"git\",\"config\",\"token\",\"-l\"]" },
	{ A("kubectl\0get\0secret\0x\0"), "[\"kubectl\",\"get\",\"secret\",\"x\"]" },
	{ A("git\0commit\0-m\0token rework\0x\0"), "[\"git\",\"commit\",\"-m\",\"token rework\",\"x\"]" },
	{ A("x\0--password\0--\0--h2\0y\0"), "[\"x\",\"--password\",\"--\",\"" R "\",\"y\"]" },
	{ A("python\0-c\0os.environ['TOKEN']='h2'; get(auth=('me','h2'))\0"), "[\"python\",\"-c\",\"os.environ['TOKEN']='" R "'; get(auth=" R "\"]" },
	{ A("redis-cli\0-a\0h2\0ping\0"), "[\"redis-cli\",\"-a\",\"" R "\",\"ping\"]" },
	{ A("ldapsearch\0-x\0-D\0cn=a\0-w\0h2\0-b\0o=x\0"), "[\"ldapsearch\",\"-x\",\"-D\",\"cn=a\",\"-w\",\"" R "\",\"-b\",\"o=x\"]" },
	{ A("sshpass\0-p\00012:34\0ssh\0"), "[\"sshpass\",\"-p\",\"" R "\",\"ssh\"]" },
	{ A("docker\0run\0mongo\0-p\00027017:27017\0"), "[\"docker\",\"run\",\"mongo\",\"-p\",\"27017:27017\"]" },
	{ A("x\0AKIA12\0"), "[\"x\",\"AKIA12\"]" },
	{ A("x\0AKIA12"), "[\"x\",\"" R "\"]" },
	{ A("x\0https://me:secr"), "[\"x\",\"https://" R "\"]" },
	{ A("x\0https://host:80"), "[\"x\",\"https://host:80\"]" },
	{ A("x\0\xff\x01\xc3\xa4\0"), "[\"x\",\"\\\\xff\\u0001\\\\xc3\\\\xa4\"]" },
};

static void test_argv(void **state)
{
	(void)state;
	for (size_t i = 0; i < PAWL_LEN(lines); i++) {
		struct buf out = BUF_MAX(1u << 16);
		struct json *j = NULL;

		redact_argv(NULL, lines[i].argv, true, &out);
		if (!buf_ok(&out) || !str_is(buf_str(&out), lines[i].out))
			fail_msg("row %zu: %.*s", i, STR_ARG(buf_str(&out)));
		assert_int_equal(json_parse(buf_str(&out), 4, &j, NULL), 0);
		json_free(j);
		buf_reset(&out);
		redact_argv(NULL, lines[i].argv, false, &out);
		assert_true(buf_ok(&out) && !memmem(out.p, out.n, R, strlen(R)));
		buf_done(&out);
	}
}

/* ---- what is recorded ---- */

static void kept(const struct log_policy *log, struct str args, struct str argv, const char *want_args, const char *want_argv)
{
	struct buf scratch = BUF_MAX(4096);
	struct str got = STR("?");
	struct json *j = NULL;

	assert_int_equal(json_parse(args, PAWL_MAX_DEPTH, &j, NULL), 0);
	assert_int_equal(record_args(log, j, args, &scratch, &got), 0);
	assert_true(want_args ? str_is(got, want_args) : !got.p);
	got = STR("?");
	assert_int_equal(record_argv(log, (struct str[]){ argv, STR_NONE }, 2, &scratch, &got), 0);
	assert_true(want_argv ? str_is(got, want_argv) : !got.p);
	json_free(j);
	buf_done(&scratch);
}

static void test_record(void **state)
{
	const struct str args = STR("{\"token\":\"t\"}"), argv = STR("a\0--token\0t\0");
	struct buf big = BUF_MAX(1u << 20), scratch = BUF_MAX(1u << 20), small = BUF_MAX(100);
	struct str got = STR_NONE;
	struct json *j = NULL;

	(void)state;
	kept(&(struct log_policy){ RECORD_DIGEST, NULL }, args, argv, NULL, NULL);
	kept(&(struct log_policy){ RECORD_FULL, NULL }, args, argv, "{\"token\":\"t\"}", "[[\"a\",\"--token\",\"t\"],null]");
	kept(&(struct log_policy){ RECORD_REDACTED, NULL }, args, argv, "{\"token\":\"" R "\"}", "[[\"a\",\"--token\",\"" R "\"],null]");
	kept(&(struct log_policy){ RECORD_REDACTED, (struct redact_set *)(uintptr_t)&own }, STR("{\"password\":1,\"x\":{\"apinr\":2}}"), STR("api_nr=5"),
	     "{\"password\":\"" R "\",\"x\":{\"apinr\":\"" R "\"}}", "[[\"api_nr=" R "\"],null]");
	buf_puts(&big, "{\"x\":\""); /* a two-byte character lies across the end */
	while (big.n < PAWL_MAX_VALUE + 10)
		buf_puts(&big, "a\xc3\xa4");
	buf_puts(&big, "\"}");
	assert_int_equal(json_parse(buf_str(&big), PAWL_MAX_DEPTH, &j, NULL), 0);
	assert_int_equal(record_args(&(struct log_policy){ RECORD_REDACTED, NULL }, j, buf_str(&big), &scratch, &got), 0);
	assert_true(got.n <= PAWL_MAX_VALUE && got.n + 2 > PAWL_MAX_VALUE && utf8_valid(got));
	assert_int_equal(record_args(&(struct log_policy){ RECORD_FULL, NULL }, j, buf_str(&big), &small, &got), PAWL_E_NOMEM);
	assert_int_equal(record_args(&(struct log_policy){ RECORD_REDACTED, NULL }, j, buf_str(&big), &small, &got), PAWL_E_NOMEM);
	json_free(j);
	buf_done(&big);
	buf_done(&scratch);
	buf_done(&small);
}

static void test_no_memory(void **state)
{
	struct json *j = NULL;
	bool failed = true;
	long refused = 0;

	(void)state;
	assert_int_equal(json_parse(STR("{\"a\":[\"ghp_0123456789abc\",\"x\"],\"b\":\"y\"}"), PAWL_MAX_DEPTH, &j, NULL), 0);
	for (long n = 1; failed; n++) {
		struct buf out = BUF_MAX(4096);

		fail_malloc_after(n);
		redact_json(NULL, j, &out);
		redact_argv(NULL, STR("a\0\xff"), true, &out);
		failed = fail_malloc_stop();
		refused += out.failed;
		assert_true(out.failed == failed);
		buf_done(&out);
	}
	assert_true(refused > 1);
	json_free(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json),   cmocka_unit_test(test_deep),	 cmocka_unit_test(test_texts), cmocka_unit_test(test_argv),
		cmocka_unit_test(test_record), cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
