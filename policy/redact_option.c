/* policy/redact_option.c - programs that take a secret behind a short option, and the words that say "this name is now that value".
 * A program may stand anywhere in a command: behind timeout, env, sudo, ssh and whatever else starts another. Owns nothing. */
#include "policy/redact.h"

static const struct program {
	const char *name;
	bool family; /* and all whose names begin so: mysqldump */
	bool joined; /* only -pSECRET: a lone -p asks for it at the terminal */
	enum secret_option kind;
	const char *letters, *bare; /* bare: options without a value, which may stand before such a letter in one word */
} programs[] = {
	{ "mysql", true, true, OPTION_SECRET, "p", "ABCEHNfnqstv" },
	{ "mariadb", true, true, OPTION_SECRET, "p", "ABCEHNfnqstv" },
	{ "sshpass", false, false, OPTION_SECRET, "p", "evhV" },
	{ "curl", false, false, OPTION_ACCOUNT, "uU", "0123469#BGIJLMNORSVZafgijklnpqsv" },
	{ "http", false, false, OPTION_ACCOUNT, "a", "FIbcdfhjv" },
	{ "https", false, false, OPTION_ACCOUNT, "a", "FIbcdfhjv" },
	{ "xh", false, false, OPTION_ACCOUNT, "a", "FIbcdfhjv" },
	{ "xhs", false, false, OPTION_ACCOUNT, "a", "FIbcdfhjv" },
	{ "redis-cli", false, false, OPTION_SECRET, "a", "" },
	{ "mongo", true, false, OPTION_NO_PORTS, "p", "" },
	{ "cqlsh", false, false, OPTION_SECRET, "p", "" },
	{ "ldap", true, false, OPTION_SECRET, "w", "cnvxPQ" }, /* ldapsearch, ldapmodify */
	{ "smbclient", false, false, OPTION_SECRET, "U", "" }, /* name%secret */
	{ "lftp", false, false, OPTION_SECRET, "u", "" },      /* name,secret */
	{ "sqlcmd", false, false, OPTION_SECRET, "P", "" },
	{ "bcp", false, false, OPTION_SECRET, "P", "" },
	{ "ipmitool", false, false, OPTION_SECRET, "P", "" },
	{ "snmp", true, false, OPTION_SECRET, "AXc", "" },
	{ "zip", false, false, OPTION_SECRET, "P", "rqjvmuo9" },
	{ "unzip", false, false, OPTION_SECRET, "P", "qojnvl" },
	{ "7z", true, true, OPTION_SECRET, "p", "" },
	{ "plink", false, false, OPTION_SECRET, "w", "p" }, /* -pw */
	{ "pscp", false, false, OPTION_SECRET, "w", "p" },
	{ "useradd", false, false, OPTION_SECRET, "p", "mrMUNl" },
	{ "usermod", false, false, OPTION_SECRET, "p", "aLUm" },
};
_Static_assert(PAWL_LEN(programs) <= sizeof(unsigned) * 8, "a bit each");

static bool one_of(const char *set, char c)
{
	return memchr(set, c, strlen(set)) != NULL;
}

static bool ends_name(char c)
{
	return one_of(" \t\r\n\"'`", c);
}

static bool starts(struct str s, const char *z)
{
	size_t n = strlen(z);

	return s.n >= n && memcmp(s.p, z, n) == 0;
}

unsigned secret_programs(struct str text)
{
	unsigned found = 0;

	for (size_t k = 0; k < PAWL_LEN(programs); k++) {
		size_t n = strlen(programs[k].name);

		if (starts(text, programs[k].name) && (programs[k].family || text.n == n || ends_name(text.p[n])))
			found |= 1u << k;
	}
	return found;
}

bool secret_numbers(struct str s)
{
	bool colon = false;

	for (size_t i = 0; i < s.n; i++) {
		if ((s.p[i] < '0' || s.p[i] > '9') && s.p[i] != ':')
			return false;
		colon = colon || s.p[i] == ':';
	}
	return colon;
}

/* find /var/lib/mysql -print; docker run --name mysql -p3306:3306 */
static bool innocent(struct str word, struct str value)
{
	static const char *const of_find[] = { "-path", "-perm", "-print", "-print0", "-printf", "-prune" };

	for (size_t i = 0; i < PAWL_LEN(of_find); i++)
		if (starts(word, of_find[i]) && (word.n == strlen(of_find[i]) || ends_name(word.p[strlen(of_find[i])])))
			return true;
	return secret_numbers(value);
}

enum secret_option secret_option(unsigned found, struct str word, size_t *ret_at)
{
	if (word.n < 2 || word.p[0] != '-')
		return OPTION_PLAIN;
	for (size_t k = 0; k < PAWL_LEN(programs); k++) {
		size_t i = 1;

		if (!(found & 1u << k))
			continue;
		while (i < word.n && one_of(programs[k].bare, word.p[i]))
			i++;
		if (i == word.n || !one_of(programs[k].letters, word.p[i++]))
			continue;
		if (programs[k].joined && (i == word.n || innocent(word, (struct str){ word.p + i, word.n - i })))
			continue;
		*ret_at = i;
		return programs[k].kind;
	}
	return OPTION_PLAIN;
}

bool secret_setter(struct str word)
{
	static const char *const words[] = { "set", "SET", "hset", "HSET", "put", "write", "config", "setenv", "setx", "--set", "--arg" };

	for (size_t i = 0; i < PAWL_LEN(words); i++)
		if (str_is(word, words[i]))
			return true;
	return false;
}

/* In a text, that may be a sentence, more must be said: "set the password" sets none. */
bool secret_set_before(struct str text, size_t i)
{
	static const char *const words[] = { "config set ", "configure set ", "git config ", "git config --global ", "kv put ", "setenv ", "setx ", "--arg " };

	for (size_t n = 0; n < 64 && i > 0 && text.p[i - 1] != ' '; n++) /* //registry/:_authToken */
		i--;
	for (size_t k = 0; k < PAWL_LEN(words); k++) {
		size_t n = strlen(words[k]);

		if (i >= n && memcmp(text.p + i - n, words[k], n) == 0)
			return true;
	}
	return false;
}
