/* The load of a social network, slice by slice: followers are pushed, profiles and followers read.
 */
#include "tests/bench/celebrity_ask.h"

#include <err.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FILL_USERS = 1000 }; /* inserted in one bulk */

static const char *const kind_names[KINDS] = {"push", "profile", "last", "member"};

struct options {
	int port, connections;
	int32_t users, threshold;
	int64_t prefilled; /* pushes before the first slice */
	double exponent;
	uint64_t seed;
	const char *database, *collection;
	const char *overflow; /* the application's own overflow collection; NULL: one long array */
};

struct worker {
	pthread_t thread;
	struct asker asker;
};

struct slice {
	uint64_t limit, asked, errors;
	uint64_t sampled[KINDS];
	uint64_t *samples[KINDS]; /* nanoseconds */
};

static struct options options = {
	.connections = 1,
	.users = 20000,
	.threshold = 1000,
	.exponent = 1.3,
	.seed = 1,
	.database = "celebrity",
	.collection = "alone",
};
static struct worker *workers;
static struct slice slice;
static struct draw drawn;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of slice and drawn */

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static bool begin_operation(struct operation *o)
{
	bool goes_on;

	pthread_mutex_lock(&lock);
	goes_on = slice.asked < slice.limit;
	if (goes_on) {
		slice.asked++;
		draw_operation(&drawn, o);
	}
	pthread_mutex_unlock(&lock);
	return goes_on;
}

static void end_operation(const struct operation *o, uint64_t took, bool good)
{
	pthread_mutex_lock(&lock);
	slice.samples[o->kind][slice.sampled[o->kind]++] = took;
	slice.errors += !good;
	pthread_mutex_unlock(&lock);
	if (!good)
		warnx("wrong answer: %s of user %d, %d followers, position %d", kind_names[o->kind],
		      o->user, o->followers, o->position);
}

static void *work(void *context)
{
	struct worker *w = context;
	struct operation o;

	while (begin_operation(&o)) {
		uint64_t began = now();
		bool good = ask(&w->asker, &o);

		end_operation(&o, now() - began, good);
	}
	return NULL;
}

static void run_slice(uint64_t operations)
{
	slice = (struct slice){.limit = operations};
	for (int kind = 0; kind < KINDS; kind++) {
		slice.samples[kind] = calloc(operations, sizeof(uint64_t));
		if (slice.samples[kind] == NULL)
			err(1, "memory for %" PRIu64 " samples", operations);
	}
	draw_begin_slice(&drawn);
	for (int i = 0; i < options.connections; i++) {
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			errx(1, "cannot start a thread");
	}
	for (int i = 0; i < options.connections; i++)
		pthread_join(workers[i].thread, NULL);
}

/* Seconds of this process, all threads. */
static double cpu_seconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int compare_samples(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

static double percentile(int kind, double part)
{
	if (slice.sampled[kind] == 0)
		return 0;
	return (double)slice.samples[kind][(size_t)((double)(slice.sampled[kind] - 1) * part)] /
	       1e3;
}

static void measure(uint64_t operations)
{
	double cpu = cpu_seconds();
	uint64_t began = now();

	run_slice(operations);
	printf("{\"operations\": %" PRIu64
	       ", \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"errors\": %" PRIu64
	       ", \"pushes\": %" PRId64 ", \"longest\": %d",
	       operations, (double)(now() - began) / 1e9, cpu_seconds() - cpu, slice.errors,
	       drawn.pushes, drawn.longest);
	for (int kind = 0; kind < KINDS; kind++) {
		qsort(slice.samples[kind], slice.sampled[kind], sizeof(uint64_t), compare_samples);
		printf(", \"%s\": {\"count\": %" PRIu64 ", \"p50_us\": %.1f, \"p99_us\": %.1f}",
		       kind_names[kind], slice.sampled[kind], percentile(kind, 0.5),
		       percentile(kind, 0.99));
		free(slice.samples[kind]);
	}
	puts("}");
	fflush(stdout);
}

static void append_followers(bson_t *document, int32_t user, int32_t first, int32_t end)
{
	bson_t array;

	BSON_APPEND_ARRAY_BEGIN(document, "followers", &array);
	for (int32_t i = first; i < end; i++) {
		bson_t *element = ask_new_element(user, i);
		char room[16];
		const char *key;
		size_t length =
			bson_uint32_to_string((uint32_t)(i - first), &key, room, sizeof(room));

		bson_append_document(&array, key, (int)length, element);
		bson_destroy(element);
	}
	bson_append_array_end(document, &array);
}

static void insert(mongoc_bulk_operation_t *bulk, bson_t *document)
{
	bson_error_t error;

	if (!mongoc_bulk_operation_insert_with_opts(bulk, document, NULL, &error))
		errx(1, "insert: %s", error.message);
	bson_destroy(document);
}

static void insert_user(mongoc_bulk_operation_t *bulk, int32_t user, int32_t kept)
{
	char name[32], address[64];
	bson_t *document;

	snprintf(name, sizeof(name), "user%05d", user);
	snprintf(address, sizeof(address), "%s@example.org", name);
	document =
		BCON_NEW("_id", BCON_INT32(user), "username", BCON_UTF8(name), "email",
			 BCON_UTF8(address), "followerCount", BCON_INT32(drawn.users[user].pushed));
	if (kept < drawn.users[user].pushed)
		BSON_APPEND_BOOL(document, "hasOverflow", true);
	append_followers(document, user, 0, kept);
	insert(bulk, document);
}

static void insert_batches(mongoc_bulk_operation_t *bulk, int32_t user)
{
	int32_t size = options.threshold, pushed = drawn.users[user].pushed;

	for (int32_t first = size; first < pushed; first += size) {
		bson_t *document =
			BCON_NEW("userId", BCON_INT32(user), "batchNumber",
				 BCON_INT32(ask_batch_number(&workers[0].asker, first + 1)),
				 "createdAt", BCON_DATE_TIME(FIRST_DAY));

		append_followers(document, user, first,
				 first + size < pushed ? first + size : pushed);
		insert(bulk, document);
	}
}

static void execute(mongoc_bulk_operation_t *bulk)
{
	bson_error_t error;

	if (mongoc_bulk_operation_execute(bulk, NULL, &error) == 0)
		errx(1, "insert: %s", error.message);
	mongoc_bulk_operation_destroy(bulk);
}

/* Inserts users first to end, and the application's batches of those who have any. */
static void insert_users(int32_t first, int32_t end)
{
	mongoc_bulk_operation_t *bulk =
		mongoc_collection_create_bulk_operation_with_opts(workers[0].asker.users, NULL);
	bool batches = false;

	for (int32_t i = first; i < end; i++) {
		bool split = options.overflow != NULL && drawn.users[i].pushed > options.threshold;

		insert_user(bulk, i, split ? options.threshold : drawn.users[i].pushed);
		batches = batches || split;
	}
	execute(bulk);
	if (!batches)
		return;
	bulk = mongoc_collection_create_bulk_operation_with_opts(workers[0].asker.overflow, NULL);
	for (int32_t i = first; i < end; i++)
		insert_batches(bulk, i);
	execute(bulk);
}

static void fill(void)
{
	for (int64_t i = 0; i < options.prefilled; i++)
		draw_push(&drawn);
	for (int32_t i = 0; i < options.users; i += FILL_USERS) {
		int32_t end = i + FILL_USERS < options.users ? i + FILL_USERS : options.users;

		insert_users(i, end);
	}
}

static void open_asker(struct asker *a)
{
	char uri[128];
	bson_error_t error;
	bson_t *ping = BCON_NEW("ping", BCON_INT32(1));

	snprintf(uri, sizeof(uri), "mongodb://127.0.0.1:%d/?directConnection=true", options.port);
	a->client = mongoc_client_new(uri);
	if (a->client == NULL)
		errx(1, "not a port: %d", options.port);
	if (!mongoc_client_command_simple(a->client, "admin", ping, NULL, NULL, &error))
		errx(1, "ping: %s", error.message);
	a->users = mongoc_client_get_collection(a->client, options.database, options.collection);
	if (options.overflow != NULL)
		a->overflow =
			mongoc_client_get_collection(a->client, options.database, options.overflow);
	a->threshold = options.threshold;
	a->alone = options.connections == 1;
	bson_destroy(ping);
}

static void open_workers(void)
{
	mongoc_init();
	workers = calloc((size_t)options.connections, sizeof(*workers));
	if (workers == NULL)
		err(1, "memory for %d connections", options.connections);
	for (int i = 0; i < options.connections; i++)
		open_asker(&workers[i].asker);
}

static void read_option(int option)
{
	switch (option) {
	case 'p':
		options.port = atoi(optarg);
		break;
	case 'c':
		options.connections = atoi(optarg);
		break;
	case 'u':
		options.users = atoi(optarg);
		break;
	case 't':
		options.threshold = atoi(optarg);
		break;
	case 'f':
		options.prefilled = atoll(optarg);
		break;
	case 'e':
		options.exponent = atof(optarg);
		break;
	case 's':
		options.seed = strtoull(optarg, NULL, 10);
		break;
	case 'n':
		options.collection = optarg;
		break;
	case 'o':
		options.overflow = optarg;
		break;
	default:
		exit(2);
	}
}

static void read_options(int argc, char **argv)
{
	static const struct option names[] = {
		{"port", required_argument, NULL, 'p'},
		{"connections", required_argument, NULL, 'c'},
		{"users", required_argument, NULL, 'u'},
		{"threshold", required_argument, NULL, 't'},
		{"prefilled", required_argument, NULL, 'f'},
		{"exponent", required_argument, NULL, 'e'},
		{"seed", required_argument, NULL, 's'},
		{"collection", required_argument, NULL, 'n'},
		{"overflow", required_argument, NULL, 'o'},
		{0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1)
		read_option(option);
	if (options.connections < 1 || options.users < 1 || options.threshold < 1)
		errx(2, "connections, users and threshold are at least 1");
}

/*
 * Usage: celebrity --port P --collection C [--overflow C: the pattern by hand] ...
 * Inserts the users and says so; then reads lines `count OPERATIONS` and answers each with one line
 * of JSON.
 */
int main(int argc, char **argv)
{
	uint64_t operations;
	char line[64];

	read_options(argc, argv);
	draw_init(&drawn, options.users, options.exponent, options.seed);
	open_workers();
	fill();
	printf("{\"users\": %d, \"pushes\": %" PRId64 ", \"longest\": %d}\n", options.users,
	       drawn.pushes, drawn.longest);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		if (sscanf(line, "count %" SCNu64, &operations) != 1)
			errx(2, "unknown command: %s", line);
		measure(operations);
	}
	return 0;
}
