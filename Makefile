# pawl - the whole build. Non-recursive but for the harsher runs (MODE=), each with a folder of its own under build/.
# Writes only under build/. `make help` lists the targets.
ifeq ($(origin CC),default)
CC := gcc
endif
MODE ?= plain
B ?= build/$(notdir $(CC))-$(MODE)
PYTHON ?= python3
VENV := build/venv
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 20
TEST_TIMEOUT ?= 1800

PKGS := libsodium yaml-0.1 sqlite3 jansson libpcre2-8 libbpf
WARN := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 -Wswitch-enum -Wundef -Wcast-qual -Werror
HARDEN := -fPIE -fstack-protector-strong -fno-strict-aliasing -fno-common
HARDEN_LINK := -pie -Wl,-z,relro,-z,now,-z,noexecstack
ifeq ($(SAN),)
HARDEN += -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
endif
CFLAGS ?= -O2 -g
CPPFLAGS += -D_GNU_SOURCE -Iinclude -I. -I$(B)/gen
# asked for late, so that `make deps` runs on a machine that has no pkg-config yet, and then once
PKG_CFLAGS = $(eval PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null))$(PKG_CFLAGS)
# as needed: libbpf is for the watcher alone, `pawl` does not carry it
PKG_LIBS = $(eval PKG_LIBS := -Wl,--as-needed $(shell pkg-config --libs $(PKGS) 2>/dev/null) -pthread)$(PKG_LIBS)

# one short line a file; V=1 shows the commands
Q = $(if $(V),,@echo "  $@";)

MAINS := daemon/main.c daemon/cli/pawl.c
LIBSRC ?= $(filter-out $(MAINS),$(wildcard policy/*.c daemon/*.c daemon/*/*.c hooks/run/*.c))
LIBOBJ := $(LIBSRC:%.c=$(B)/%.o)
SUPPORT := $(patsubst %.c,$(B)/%.o,$(wildcard tests/support/*.c))
TESTS := $(filter-out $(UNIT_SKIP:%=$(B)/tests/unit/%),$(patsubst %.c,$(B)/%,$(wildcard tests/unit/test_*.c)))
FUZZERS := $(patsubst %.c,$(B)/%,$(wildcard tests/fuzz/fuzz_*.c))
LIVE := $(sort $(patsubst %/,%,$(dir $(wildcard tests/*/test_*.py))))
# these bring many processes, and load programs into the kernel: never two of them at a time
LIVE_ALONE := kernel watch
UNIT_ALONE := test_cgroup $(notdir $(basename $(wildcard tests/unit/test_guard*.c))) test_launch test_sweep test_trees
# under a sanitizer: fewer kills, longer waits
SHORT := PAWL_TEST_SHORT=1 PAWL_KILLS=5 PAWL_SLOW=5
STARTER := examples/policies/starter.yaml

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all
all: $(B)/pawld $(B)/pawl ## build pawld and pawl (needs the packages of `make deps`)

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c17 -MMD -MP $(WARN) $(HARDEN) $(CPPFLAGS) $(PKG_CFLAGS) $(CFLAGS) $(SAN) -c $< -o $@
$(B)/libpawl.a: $(LIBOBJ)
	$(Q)rm -f $@ && ar rcs $@ $^
$(B)/pawld: $(B)/daemon/main.o $(B)/libpawl.a
	$(Q)$(CC) $(HARDEN_LINK) $(SAN) $(LDFLAGS) $^ -o $@ $(PKG_LIBS)
$(B)/pawl: $(B)/daemon/cli/pawl.o $(B)/libpawl.a
	$(Q)$(CC) $(HARDEN_LINK) $(SAN) $(LDFLAGS) $^ -o $@ $(PKG_LIBS)
$(TESTS): $(B)/%: $(B)/%.o $(SUPPORT) $(B)/libpawl.a
	$(Q)$(CC) $(HARDEN_LINK) $(SAN) $(LDFLAGS) $^ -o $@ $(PKG_LIBS) $(shell pkg-config --libs cmocka nanomsg 2>/dev/null)
-include tests/bench/Makefile.inc
-include tests/kernel/Makefile.inc

# the policy that `pawl init` writes is the example that the tests run; '?' is escaped because C17 still has trigraphs
$(B)/gen/starter_policy.h: $(STARTER)
	@mkdir -p $(@D)
	$(Q)sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/?/\\?/g' -e 's/^/"/' -e 's/$$/\\n"/' $< > $@
$(B)/daemon/cli/init.o: $(B)/gen/starter_policy.h

# the kernel's programs: clang alone has that target, whatever CC is; their bytes go into pawld. -mcpu=v3: atomics that give the old value
$(B)/%.bpf.o: %.bpf.c
	@mkdir -p $(@D)
	$(Q)clang -target bpf -mcpu=v3 -O2 -g -Wall -Werror -Iinclude -I. -MMD -MP -c $< -o $@
$(B)/gen/guard_bpf.h: $(B)/hooks/bpf/guard.bpf.o
	@mkdir -p $(@D)
	$(Q)od -An -v -tx1 $< | sed -e 's/ *\([0-9a-f][0-9a-f]\)/0x\1,/g' > $@
$(B)/daemon/watch/guard_object.o: $(B)/gen/guard_bpf.h

# ---- for a new user ----
.PHONY: deps demo
deps: ## install what is missing for every target (DEPS=demo or test for less; PAWL_DEPS=no only says)
	@tests/support/deps.sh $(or $(DEPS),all)
demo: ## an agent allowed, held for review and denied; a SIGKILL in the middle; the log verified
	@tests/support/deps.sh demo
	@$(MAKE) --no-print-directory all
	@$(PYTHON) -B examples/demo/run.py --build $(B)

# ---- tests; WRAP runs each unit test under another program, LIVE_ENV reaches the tests of a running pawld ----
.PHONY: test unit live harsh check-layers
test: ## everything that shows a promise: unit, layers, live daemon, crashes, attacks
	@tests/support/deps.sh test
	@$(MAKE) --no-print-directory all $(TESTS)
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory check-layers
	@$(MAKE) --no-print-directory live
unit: $(TESTS) ## the unit tests alone
	@ALONE='$(UNIT_ALONE)' TEST_TIMEOUT=$(TEST_TIMEOUT) RUN='$(WRAP)' tests/support/lanes.sh $(TESTS)
live: $(B)/pawld $(B)/pawl kernel-programs
	@ALONE='$(LIVE_ALONE)' TEST_TIMEOUT=$(TEST_TIMEOUT) $(LIVE_ENV) PAWL_BUILD=$(abspath $(B)) PYTHONPATH=$(abspath hooks/python) PYTHONDONTWRITEBYTECODE=1 \
	RUN='$(VENV)/bin/python -m pytest -q --confcutdir tests -p no:cacheprovider -o tmp_path_retention_policy=failed' tests/support/lanes.sh $(LIVE)
harsh:
	@$(MAKE) --no-print-directory all $(TESTS)
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory live LIVE_ENV='$(SHORT) $(LIVE_ENV)'
check-layers: $(B)/libpawl.a ## who includes whom, one library header a file, forbidden calls, no globals
	@tests/support/check-layers.sh $(B)/libpawl.a

# ---- the same tests under a harsher eye; CC=clang for the other compiler ----
.PHONY: check-asan check-tsan check-valgrind analyze fuzz fuzz-run bench
export ASAN_OPTIONS ?= detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS ?= print_stacktrace=1
export TSAN_OPTIONS ?= second_deadlock_stack=1
check-asan: ## AddressSanitizer and UndefinedBehaviorSanitizer
	@tests/support/deps.sh all
	@$(MAKE) --no-print-directory harsh MODE=asan SAN='-fsanitize=address,undefined -fno-sanitize-recover=all'
# ThreadSanitizer has a thread and much address space of its own: the jobs of test_guard* count theirs, and with two threads test_launch's child can
# have no user namespace. Guard and launcher have one thread.
check-tsan: ## ThreadSanitizer
	@tests/support/deps.sh all
	@$(MAKE) --no-print-directory harsh MODE=tsan SAN='-fsanitize=thread' UNIT_SKIP="test_guard% test_launch"
# somalloc: valgrind must leave the malloc of tests/support/fail_malloc.c alone, or no allocation would ever fail
VALGRIND := valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite --soname-synonyms=somalloc=nouserintercepts
check-valgrind: ## unit tests under valgrind
	@tests/support/deps.sh all
	@$(MAKE) --no-print-directory unit WRAP='$(VALGRIND)'

ANALYZED := $(LIBSRC) $(wildcard $(MAINS))
AN := build/analyze
AN_FLAGS = -std=c17 $(WARN) $(CPPFLAGS) $(PKG_CFLAGS) -O1 $(if $(filter daemon/base/error.c,$<),,-include tests/support/analyze.h)
# gcc 12 loses sight of a block that is stored through a pointer and calls it leaked; clang, AddressSanitizer and valgrind look for leaks
AN_GCC := -fanalyzer -Wno-analyzer-malloc-leak
# it takes minutes over the bytes of guard_object.c, which has nothing else in it; and it takes "set through a pointer by a function" for never set, and reads no hexadecimal floats; the compilers do
AN_CPPCHECK := --suppress=uninitvar --suppress=legacyUninitvar --suppress=ctuuninitvar --suppress=incorrectLogicOperator:policy/canon.c --suppress=missingIncludeSystem
$(AN)/gcc/%.ok: %.c
	@mkdir -p $(@D)
	$(Q)gcc $(AN_GCC) $(AN_FLAGS) -MMD -MP -MT $@ -MF $(@:.ok=.d) -c $< -o /dev/null && touch $@
$(AN)/clang/%.ok: %.c
	@mkdir -p $(@D)
	$(Q)clang --analyze --analyzer-output text -Xclang -analyzer-werror $(AN_FLAGS) -o /dev/null $<
	@clang $(AN_FLAGS) -MM -MP -MT $@ $< > $(@:.ok=.d) && touch $@
$(AN)/gcc/daemon/cli/init.ok $(AN)/clang/daemon/cli/init.ok: $(B)/gen/starter_policy.h
$(AN)/gcc/daemon/watch/guard_object.ok $(AN)/clang/daemon/watch/guard_object.ok: $(B)/gen/guard_bpf.h
.PHONY: cppcheck
cppcheck: $(B)/gen/starter_policy.h
	@if command -v cppcheck >/dev/null; then cppcheck --quiet --error-exitcode=1 --enable=warning,portability --std=c11 --inline-suppr \
	$(AN_CPPCHECK) -D_GNU_SOURCE -Iinclude -I. -I$(B)/gen $(filter-out daemon/watch/guard_object.c,$(ANALYZED)); else echo "cppcheck is not here: that part is left out"; fi
analyze: $(ANALYZED:%.c=$(AN)/gcc/%.ok) $(ANALYZED:%.c=$(AN)/clang/%.ok) cppcheck ## gcc -fanalyzer, clang --analyze, cppcheck: a warning fails

FUZZ_SAN := address,undefined
fuzz: ## each tests/fuzz target for FUZZ_SECONDS (20), with clang's libFuzzer
	@tests/support/deps.sh all
	@$(MAKE) --no-print-directory fuzz-run CC=clang MODE=fuzz SAN='-fsanitize=fuzzer-no-link,$(FUZZ_SAN) -fno-sanitize-recover=all'
$(FUZZERS): $(B)/%: $(B)/%.o $(B)/libpawl.a
	$(Q)$(CC) $(HARDEN_LINK) -fsanitize=fuzzer,$(FUZZ_SAN) -fno-sanitize-recover=all $(LDFLAGS) $^ -o $@ $(PKG_LIBS)
fuzz-run: $(FUZZERS)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) tests/support/fuzz.sh $(B)/fuzz $(FUZZERS)

bench: ## speed and size beside the floor, as a table and JSON (build/bench/)
	@tests/support/deps.sh test
	@$(MAKE) --no-print-directory all bench-programs kernel-programs
	@PYTHONPATH=$(abspath hooks/python) $(PYTHON) -B tests/bench/bench.py --build $(B)

# ---- the rest ----
.PHONY: install clean help
install: all ## install below DESTDIR and PREFIX
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/sbin $(DESTDIR)$(PREFIX)/share/pawl/policies $(DESTDIR)$(PREFIX)/share/pawl/python/pawl
	install -m 755 $(B)/pawl $(DESTDIR)$(PREFIX)/bin/pawl
	install -m 755 $(B)/pawld $(DESTDIR)$(PREFIX)/sbin/pawld
	for m in docs/man/*.[1-8]; do install -D -m 644 $$m $(DESTDIR)$(PREFIX)/share/man/man$${m##*.}/$${m##*/} || exit 1; done
	install -m 644 examples/policies/*.yaml $(DESTDIR)$(PREFIX)/share/pawl/policies/
	cd hooks/python && find . -type f ! -path '*__pycache__*' ! -path '*.egg-info*' -exec install -D -m 644 {} $(abspath $(DESTDIR)$(PREFIX))/share/pawl/python/{} \;
clean: ## remove build/
	rm -rf build
help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' Makefile

-include $(shell find $(B) $(AN) -name '*.d' 2>/dev/null)
