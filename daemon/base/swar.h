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

/* Each of these sets the top bit of the bytes it is about. A borrow may set it for bytes behind the first such byte: the
 * lowest bit and zero are to be trusted, nothing else. */
static inline uint64_t swar_zero(uint64_t w)
{
	return (w - SWAR_ONES) & ~w & SWAR_TOPS;
}

/* What a JSON string cannot hold as it is: below 0x20, the quote, the backslash. */
static inline uint64_t swar_json_special(uint64_t w)
{
	return ((w - SWAR_ONES * 0x20) & ~w & SWAR_TOPS) | swar_zero(w ^ SWAR_ONES * '"') |
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
