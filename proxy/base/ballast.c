/* Memory for when the system gives no more. */
#include "proxy/base/ballast.h"

#include "protocol/base.h"

#include <bson/bson.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <uv.h>

#define PIECE ((size_t)1 << 20) /* what is given back at once: malloc maps in pages and more */
#define MUCH (64 * 1024)
#define WAIT_MS 20
#define WAITS 3000 /* a minute */

static struct {
	pthread_mutex_t lock;
	char *start; /* NULL: none is there */
	size_t length, wanted;
	atomic_bool lacks;
} ballast = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local bool patient;

static char *map(size_t size)
{
	void *start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return start == MAP_FAILED ? NULL : start;
}

/* Gives its end back to the system. */
static bool give(size_t size)
{
	size_t piece = (size + 2 * PIECE) / PIECE * PIECE;
	bool some;

	pthread_mutex_lock(&ballast.lock);
	some = ballast.length > 0;
	piece = least(piece, ballast.length);
	if (some) {
		atomic_store(&ballast.lacks, true);
		ballast.length -= piece;
		munmap(ballast.start + ballast.length, piece);
		if (ballast.length == 0)
			ballast.start = NULL;
	}
	pthread_mutex_unlock(&ballast.lock);
	return some;
}

static bool on_need(size_t size, unsigned attempt)
{
	const struct timespec pause = {.tv_nsec = WAIT_MS * 1000000};

	if (!patient || size < MUCH || attempt >= WAITS)
		return give(size);
	nanosleep(&pause, NULL);
	return true;
}

static void *crypto_malloc(size_t size, const char *file, int line)
{
	(void)file;
	(void)line;
	return size ? must_malloc(size) : NULL;
}

static void *crypto_realloc(void *memory, size_t size, const char *file, int line)
{
	(void)file;
	(void)line;
	if (size)
		return must_realloc(memory, size);
	free(memory);
	return NULL;
}

static void crypto_free(void *memory, const char *file, int line)
{
	(void)file;
	(void)line;
	free(memory);
}

/* OpenSSL makes something as soon as it is loaded, and takes no other functions after that: what
 * stands in this section runs before the libraries begin. */
static void teach_crypto(void)
{
	(void)CRYPTO_set_mem_functions(crypto_malloc, crypto_realloc, crypto_free);
}

static void (*const before_libraries)(void)
	__attribute__((section(".preinit_array"), used)) = teach_crypto;

static void *aligned(size_t alignment, size_t size)
{
	unsigned attempt = 0;
	void *memory;

	while (!(memory = aligned_alloc(alignment, size)))
		memory_need(size, attempt++);
	return memory;
}

static void teach_libraries(void)
{
	static const bson_mem_vtable_t vtable = {
		.malloc = must_malloc,
		.calloc = must_calloc,
		.realloc = must_realloc,
		.free = free,
		.aligned_alloc = aligned,
	};

	bson_mem_set_vtable(&vtable);
	(void)uv_replace_allocator(must_malloc, must_realloc, must_calloc, free);
}

bool ballast_load(size_t size)
{
	ballast.start = map(size);
	ballast.length = ballast.wanted = ballast.start ? size : 0;
	memory_on_need = on_need;
	teach_libraries();
	return ballast.start;
}

/* There is one part at most, and nothing is written in it. */
static void load_again(void)
{
	char *start = map(ballast.wanted);

	if (!start)
		return;
	if (ballast.start)
		munmap(ballast.start, ballast.length);
	ballast.start = start;
	ballast.length = ballast.wanted;
	atomic_store(&ballast.lacks, false);
}

bool ballast_suffices(void)
{
	bool suffices;

	if (!atomic_load_explicit(&ballast.lacks, memory_order_relaxed))
		return true;
	pthread_mutex_lock(&ballast.lock);
	if (atomic_load(&ballast.lacks))
		load_again();
	suffices = ballast.length >= ballast.wanted / 2;
	pthread_mutex_unlock(&ballast.lock);
	return suffices;
}

void ballast_be_patient(void)
{
	patient = true;
}
