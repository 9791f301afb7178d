/* Preloaded into the mongod of a test: it starts without 0.7 s of counting.
 *
 * WiredTiger measures its clock at each start by counting to 100,000,000 three times. What it
 * measures goes into its own statistics only. A run of all tests starts mongod some 200 times, so
 * it counts to 1,000,000 here. A mongod that was compiled otherwise has no such loop, and is left
 * as it is. */
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* for (i = 0; i < 100000000; i++), compiled: the last four bytes are the last number. */
static const unsigned char LOOP[] = {0x48, 0x8b, 0x45, 0xa8, 0x48, 0x83, 0xc0, 0x01,
				     0x48, 0x89, 0x45, 0xa8, 0x48, 0x8b, 0x45, 0xa8,
				     0x48, 0x3d, 0xff, 0xe0, 0xf5, 0x05};
static const uint32_t LAST = 999999;

/* The place of the only such loop; NULL where there is none, or another. */
static unsigned char *find_loop(unsigned char *code, size_t length)
{
	unsigned char *end = code + length, *found = memmem(code, length, LOOP, sizeof(LOOP));

	if (!found || memmem(found + 1, (size_t)(end - found - 1), LOOP, sizeof(LOOP)))
		return NULL;
	return found;
}

static void shorten(unsigned char *loop)
{
	unsigned char *last = loop + sizeof(LOOP) - sizeof(LAST);
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), rest = (uintptr_t)last % page;

	if (mprotect(last - rest, rest + sizeof(LAST), PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
		return;
	memcpy(last, &LAST, sizeof(LAST));
	mprotect(last - rest, rest + sizeof(LAST), PROT_READ | PROT_EXEC);
}

/* The program itself is the first that is told of; 1 ends the walk. */
static int shorten_program(struct dl_phdr_info *info, size_t size, void *unused)
{
	(void)size;
	(void)unused;
	for (const ElfW(Phdr) *part = info->dlpi_phdr; part < info->dlpi_phdr + info->dlpi_phnum;
	     part++) {
		unsigned char *loop = NULL;

		if (part->p_type == PT_LOAD && part->p_flags & PF_X)
			loop = find_loop((unsigned char *)info->dlpi_addr + part->p_vaddr,
					 part->p_memsz);
		if (loop)
			shorten(loop);
	}
	return 1;
}

__attribute__((constructor)) static void shorten_start(void)
{
	dl_iterate_phdr(shorten_program, NULL);
}
