/* policy/redact_name.c - which names stand before a secret. Compared by letters and digits alone, in lower case, so that API-Key,
 * api_key and apiKey are one name. Owns nothing. */
#include "policy/redact.h"

#define NAME_MAX_FOLD 128 /* of a longer name the first letters count */

static size_t fold(struct str name, char out[static NAME_MAX_FOLD])
{
	size_t n = 0;

	for (size_t i = 0; i < name.n && n < NAME_MAX_FOLD; i++) {
		char c = name.p[i];

		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
			out[n++] = c;
	}
	return n;
}

bool secret_name_eq(struct str a, struct str b)
{
	char fa[NAME_MAX_FOLD], fb[NAME_MAX_FOLD];
	size_t na = fold(a, fa), nb = fold(b, fb);

	return na == nb && memcmp(fa, fb, na) == 0;
}

static bool ends_with(struct str s, const char *tail)
{
	size_t n = strlen(tail);

	return s.n >= n && memcmp(s.p + s.n - n, tail, n) == 0;
}

static bool own_name(const struct redact_set *set, struct str name)
{
	for (size_t i = 0; set && i < set->n; i++)
		if (set->paths[i].anywhere && !memchr(set->paths[i].text.p, '.', set->paths[i].text.n) && secret_name_eq(set->paths[i].text, name))
			return true;
	return false;
}

enum secret_name secret_name(const struct redact_set *set, struct str name)
{
	static const char *const inside[] = {
		"password", "passwd", "passphrase", "passcode", "secret", "credential", "authorization", "cookie", "connectionstring", "mnemonic", "seedphrase",
		"apikey", "privatekey", "privkey", "accesskey", "accountkey", "signingkey", "encryptionkey", "masterkey", "sharedkey", "authkey", "licensekey",
		"subscriptionkey", "consumerkey", "authtoken", "accesstoken", "refreshtoken", "sessiontoken", "amzsignature", "recoverycode", "verificationcode",
	};
	static const char *const tails[] = { "token", "session", "sessionid", "sessid", "auth", "jwt", "otp", "pwd", "pswd", "pw", "creds", "bearer", "pass" };
	static const char *const whole[] = { "sid", "sig", "pin", "cvv", "cvc", "pat", "xauthkey", "hmackey" };
	static const char *const words[] = { "bypass", "compass", "trespass", "overpass", "underpass", "surpass" }; /* that end so */
	char text[NAME_MAX_FOLD];
	struct str s = { text, fold(name, text) };

	if (own_name(set, name))
		return NAME_STRONG;
	for (size_t i = 0; i < PAWL_LEN(inside); i++)
		if (s.n && memmem(s.p, s.n, inside[i], strlen(inside[i])))
			return NAME_STRONG;
	while (s.n && s.p[s.n - 1] >= '0' && s.p[s.n - 1] <= '9') /* token2 */
		s.n--;
	for (size_t i = 0; i < PAWL_LEN(words); i++)
		if (ends_with(s, words[i]))
			return NAME_PLAIN;
	for (size_t i = 0; i < PAWL_LEN(tails); i++)
		if (ends_with(s, tails[i]))
			return NAME_WEAK;
	for (size_t i = 0; i < PAWL_LEN(whole); i++)
		if (str_is(s, whole[i]))
			return NAME_WEAK;
	return NAME_PLAIN;
}
