/* policy/redact_look.c - what known kinds of keys and tokens look like, under no name or any. Owns nothing. */
#include "policy/redact.h"

bool secret_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool secret_in_word(char c)
{
	return secret_alnum(c) || c == '_' || c == '-' || c == '.';
}

bool secret_in_token(char c)
{
	return secret_in_word(c) || c == '~' || c == '+' || c == '/' || c == '=';
}

static bool starts(struct str s, size_t i, const char *z)
{
	size_t n = strlen(z);

	return s.n - i >= n && memcmp(s.p + i, z, n) == 0;
}

static size_t word_end(struct str s, size_t i, bool (*in)(char))
{
	while (i < s.n && in(s.p[i]))
		i++;
	return i;
}

static const struct look {
	const char *prefix;
	size_t least; /* bytes of a word behind it */
	bool digit;   /* one of them is a digit, unless there are 16: sk-learn is no key */
} looks[] = {
	{ "sk-", 5, true },	{ "sk_live_", 6, false }, { "sk_test_", 6, false },    { "rk_live_", 6, false }, { "ghp_", 10, false },
	{ "gho_", 10, false },	{ "ghu_", 10, false },	  { "ghs_", 10, false },       { "ghr_", 10, false },	 { "github_pat_", 10, false },
	{ "glpat-", 10, false }, { "xoxb-", 8, false },	  { "xoxp-", 8, false },       { "xoxa-", 8, false },	 { "xoxr-", 8, false },
	{ "xoxs-", 8, false },	{ "xapp-", 8, false },	  { "AKIA", 16, false },       { "ASIA", 16, false },	 { "AIza", 30, false },
	{ "ya29.", 10, false },	{ "npm_", 20, false },	  { "pypi-", 20, false },      { "hf_", 20, false },	 { "dop_v1_", 20, false },
	{ "SG.", 20, false },	{ "shpat_", 20, false },  { "AGE-SECRET-KEY-1", 8, false }, { "hvs.", 10, false }, { "hvb.", 10, false },
	{ "glsa_", 20, false },	{ "whsec_", 10, false },  { "rk_test_", 6, false },    { "lin_api_", 10, false }, { "gsk_", 20, false },
	{ "xai-", 20, true },	{ "pplx-", 20, true },	  { "nvapi-", 20, false },     { "tvly-", 10, true },	 { "tskey-", 10, false },
	{ "r8_", 20, false },	{ "sbp_", 20, false },	  { "figd_", 20, false },      { "ntn_", 20, false },	 { "ATATT3x", 10, false },
};
/* Addresses that are secrets: whoever has one may post there. */
static const char *const hooks[] = { "hooks.slack.com/services/", "hooks.slack.com/workflows/", "discord.com/api/webhooks/", "discordapp.com/api/webhooks/", "api.telegram.org/bot" };

bool secret_has_digit(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] >= '0' && s.p[i] <= '9')
			return true;
	return false;
}

size_t secret_token(struct str s, size_t i, bool cut)
{
	for (size_t k = 0; k < PAWL_LEN(looks); k++) {
		size_t from = i + strlen(looks[k].prefix), to, n;

		if (!starts(s, i, looks[k].prefix))
			continue;
		to = word_end(s, from, secret_in_word);
		n = to - from;
		if (cut && to == s.n)
			return to;
		if (n >= looks[k].least && (!looks[k].digit || n >= 16 || secret_has_digit((struct str){ s.p + from, n })))
			return to;
	}
	if (starts(s, i, "eyJ")) { /* a JWT: {"… in base64url, points between its parts */
		size_t to = word_end(s, i, secret_in_word);

		if ((cut && to == s.n) || (to - i >= 20 && memchr(s.p + i, '.', to - i)))
			return to;
	}
	for (size_t k = 0; k < PAWL_LEN(hooks); k++) {
		size_t from = i + strlen(hooks[k]), to = from;

		if (!starts(s, i, hooks[k]))
			continue;
		while (to < s.n && (secret_in_token(s.p[to]) || s.p[to] == ':'))
			to++;
		return to > from ? to : i;
	}
	if (starts(s, i, "PRIVATE+KEY+")) /* a signer's key, in one line */
		return word_end(s, i, secret_in_token);
	return i;
}
