/* daemon/base/near.c - see near.h. Optimal string alignment with three rows. */
#include "daemon/base/near.h"

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t near_edits(struct str a, struct str b)
{
	size_t row[3][NEAR_MAX + 1] = { 0 };

	if (a.n > NEAR_MAX || b.n > NEAR_MAX)
		return NEAR_MAX;
	for (size_t j = 0; j <= b.n; j++)
		row[0][j] = j;
	for (size_t i = 1; i <= a.n; i++) {
		size_t *now = row[i % 3], *last = row[(i - 1) % 3], *before = row[(i + 1) % 3];

		now[0] = i;
		for (size_t j = 1; j <= b.n; j++) {
			now[j] = least(least(last[j], now[j - 1]) + 1, last[j - 1] + (a.p[i - 1] != b.p[j - 1]));
			if (i > 1 && j > 1 && a.p[i - 1] == b.p[j - 2] && a.p[i - 2] == b.p[j - 1])
				now[j] = least(now[j], before[j - 2] + 1);
		}
	}
	return row[a.n % 3][b.n];
}
