/* tests/support/zone_file.h - a TZif file put together in a test: few steps, any rule at its end, and what damages it. */
#ifndef TEST_ZONE_FILE_H
#define TEST_ZONE_FILE_H

#define TZIF_HEADER "TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define TZIF_NONE   "\0\0\0\0"
/* An empty block for readers of version 1, as the RFC suggests; then one kind of time, UTC+1, and no steps. */
#define TZIF_V1	    TZIF_HEADER TZIF_NONE TZIF_NONE TZIF_NONE TZIF_NONE "\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0"
#define TZIF_PLUS_1 TZIF_HEADER TZIF_NONE TZIF_NONE TZIF_NONE TZIF_NONE "\0\0\0\1\0\0\0\4\0\0\x0e\x10\0\0CET\0"
#define TZIF_BERLIN TZIF_V1 TZIF_PLUS_1 "\nCET-1CEST,M3.5.0,M10.5.0/3\n"
#define TZIF_BERLIN_N (sizeof(TZIF_BERLIN) - 1)

#endif
