/* daemon/log/crc32c.h - CRC-32C (Castagnoli): reflected, initial and final value all ones. "123456789" gives 0xe3069283. */
#ifndef PAWL_CRC32C_H
#define PAWL_CRC32C_H
#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(const void *p, size_t n);
uint32_t crc32c_soft(const void *p, size_t n); /* without the processor's instruction; tests compare the two */
#endif
