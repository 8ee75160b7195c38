/* daemon/base/swar.h - eight bytes of text looked at in one word: most text needs nothing done to it, and this finds the
 * byte that does. Pure; the same on either byte order. */
#ifndef PAWL_SWAR_H
#define PAWL_SWAR_H
#include <stddef.h>
#include <stdint.h>

#define SWAR_ONES UINT64_C(0x0101010101010101)
#define SWAR_TOPS UINT64_C(0x8080808080808080)

/* The first byte lands in the lowest bits. Compilers make one load of it. */
static inline uint64_t swar_load(const void *at)
{
	const unsigned char *p = (const unsigned char *)at;

	return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 | (uint64_t)p[4] << 32 |
	       (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

static inline uint64_t swar_load4(const void *at)
{
	const unsigned char *p = (const unsigned char *)at;

	return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24;
}

static inline void swar_store4(void *at, uint64_t w)
{
	unsigned char *p = at;

	p[0] = (unsigned char)w;
	p[1] = (unsigned char)(w >> 8);
	p[2] = (unsigned char)(w >> 16);
	p[3] = (unsigned char)(w >> 24);
}

/* 1 to 7 bytes, and zeroes behind them: the same byte may be looked at, or written, twice. */
static inline uint64_t swar_load_short(const void *at, size_t n)
{
	const unsigned char *p = (const unsigned char *)at;

	if (n >= 4)
		return swar_load4(p) | swar_load4(p + n - 4) << 8 * (n - 4);
	return (uint64_t)p[0] | (uint64_t)p[n / 2] << 8 * (n / 2) | (uint64_t)p[n - 1] << 8 * (n - 1);
}

static inline void swar_store_short(void *at, uint64_t w, size_t n)
{
	unsigned char *p = at;

	if (n >= 4) {
		swar_store4(p, w);
		swar_store4(p + n - 4, w >> 8 * (n - 4));
		return;
	}
	p[0] = (unsigned char)w;
	p[n / 2] = (unsigned char)(w >> 8 * (n / 2));
	p[n - 1] = (unsigned char)(w >> 8 * (n - 1));
}

/* Each of these sets the top bit of the bytes it is about. A borrow may set it for bytes behind the first such byte: the
 * lowest bit and zero are to be trusted, nothing else. */
static inline uint64_t swar_zero(uint64_t w)
{
	return (w - SWAR_ONES) & ~w & SWAR_TOPS;
}

static inline uint64_t swar_control(uint64_t w) /* below 0x20 */
{
	return (w - SWAR_ONES * 0x20) & ~w & SWAR_TOPS;
}

/* What a JSON string cannot hold as it is: below 0x20, the quote, the backslash. */
static inline uint64_t swar_json_special(uint64_t w)
{
	return swar_control(w) | swar_zero(w ^ SWAR_ONES * '"') |
	       swar_zero(w ^ SWAR_ONES * '\\');
}

static inline uint64_t swar_not_ascii(uint64_t w)
{
	return w & SWAR_TOPS;
}

/* Bytes before the first that mask is about; mask is not 0. */
static inline size_t swar_before(uint64_t mask)
{
	return (size_t)__builtin_ctzll(mask) / 8;
}

#endif
