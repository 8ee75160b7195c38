/* policy/under.c - see under.h. No I/O: real paths come from the caller's resolver. Owns nothing; appends real paths to
 * the call's scratch buffer and notes subjects in the call's facts. */
#include "policy/under.h"

static size_t add_parts(char *out, size_t n, struct str path, bool *ret_fits)
{
	for (size_t i = 0; i < path.n;) {
		size_t end = i;

		while (end < path.n && path.p[end] != '/')
			end++;
		if (end - i == 2 && path.p[i] == '.' && path.p[i + 1] == '.') {
			while (n > 0 && out[--n] != '/')
				;
		} else if (end > i && !(end - i == 1 && path.p[i] == '.')) {
			if (n + 1 + (end - i) >= UNDER_PATH_BYTES) {
				*ret_fits = false;
				return n;
			}
			out[n++] = '/';
			memcpy(out + n, path.p + i, end - i);
			n += end - i;
		}
		i = end + 1;
	}
	return n;
}

int path_clean(struct str root, struct str path, char out[static UNDER_PATH_BYTES], struct str *ret)
{
	bool fits = true;
	size_t n = 0;

	if (path.n == 0 || memchr(path.p, '\0', path.n))
		return PAWL_E_MALFORMED;
	if (path.p[0] != '/') {
		if (root.n == 0 || root.p[0] != '/' || memchr(root.p, '\0', root.n))
			return PAWL_E_MALFORMED;
		n = add_parts(out, 0, root, &fits);
	}
	if (fits)
		n = add_parts(out, n, path, &fits);
	if (!fits)
		return PAWL_E_MALFORMED;
	if (n == 0)
		out[n++] = '/';
	out[n] = '\0';
	*ret = (struct str){ out, n };
	return 0;
}

bool path_within(struct str dir, struct str path)
{
	if (dir.n == 1) /* "/" */
		return path.n > 0 && path.p[0] == '/';
	return path.n >= dir.n && memcmp(dir.p, path.p, dir.n) == 0 && (path.n == dir.n || path.p[dir.n] == '/');
}

static struct under_row ask(const struct subjects *s, struct str path)
{
	struct under_row row = { .path = path };
	char out[UNDER_PATH_BYTES];
	struct str real;

	if (s->res->resolve(s->res->arg, s->who->root_dir, path, out, sizeof(out)) < 0 ||
	    !memchr(out, '\0', sizeof(out)))
		return row;
	real = str_of(out);
	if (real.n == 0 || real.p[0] != '/')
		return row;
	row.at = s->scratch->n;
	row.n = real.n;
	buf_str_add(s->scratch, real);
	row.resolved = buf_ok(s->scratch);
	return row;
}

/* Beyond the memo's room a path is asked for again: slower, not wrong. */
static struct under_row real_path(const struct subjects *s, struct str path)
{
	struct under_memo *m = s->memo;
	struct under_row row;

	for (size_t i = 0; i < m->n; i++)
		if (str_eq(m->rows[i].path, path))
			return m->rows[i];
	row = ask(s, path);
	if (m->n < PAWL_LEN(m->rows))
		m->rows[m->n++] = row;
	return row;
}

static struct str real_text(const struct subjects *s, const struct under_row *row)
{
	return (struct str){ s->scratch->p + row->at, row->n };
}

/* One line a subject: the same argument is the same path throughout a call. */
static struct fact_path *note(const struct subjects *s, struct str subject)
{
	for (size_t i = 0; i < *s->n_paths; i++)
		if (str_eq(s->paths[i].subject, subject))
			return &s->paths[i];
	if (*s->n_paths == SUBJECT_PATHS)
		return NULL;
	s->paths[*s->n_paths] = (struct fact_path){ .subject = subject };
	return &s->paths[(*s->n_paths)++];
}

/* What the words say: 1 inside, 0 outside, negative = nothing can be said. */
static int words_within(const struct subjects *s, struct str dir, struct str path)
{
	char root_b[UNDER_PATH_BYTES], dir_b[UNDER_PATH_BYTES], path_b[UNDER_PATH_BYTES];
	struct str root = s->who->root_dir, root_c, dir_c, path_c;

	if (path_clean(root, dir, dir_b, &dir_c) < 0 || path_clean(root, path, path_b, &path_c) < 0)
		return -1;
	if (root.n) {
		if (path_clean(STR_NONE, root, root_b, &root_c) < 0 || !path_within(root_c, path_c))
			return -1;
	}
	return path_within(dir_c, path_c);
}

/* 1 inside, 0 outside, negative = something is unresolved or lies outside the session's root. */
static int truly_within(const struct subjects *s, struct str dir, const struct under_row *real)
{
	struct under_row real_dir = real_path(s, dir), real_root;

	if (!real_dir.resolved)
		return -1;
	if (s->who->root_dir.n) {
		real_root = real_path(s, s->who->root_dir);
		if (!real_root.resolved || !path_within(real_text(s, &real_root), real_text(s, real)))
			return -1;
	}
	return path_within(real_text(s, &real_dir), real_text(s, real));
}

enum truth under_eval(const struct subjects *s, struct str subject, struct str dir, struct str path)
{
	struct fact_path *fact;
	struct under_row real;
	int words, truly;

	if (!s->res || !s->res->resolve || !s->memo || !s->scratch)
		return TRUTH_FAILED;
	fact = note(s, subject);
	words = words_within(s, dir, path);
	if (!fact || words < 0)
		return TRUTH_FAILED;
	real = real_path(s, path);
	fact->resolved = real.resolved;
	if (!real.resolved)
		return TRUTH_FAILED;
	truly = truly_within(s, dir, &real);
	if (truly != words) /* a link: an allow rule must not take it for inside, nor a deny rule for outside */
		return TRUTH_FAILED;
	return truly ? TRUTH_YES : TRUTH_NO;
}
