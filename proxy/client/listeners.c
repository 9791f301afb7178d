/* Opens and closes listeners on all loops: sockets are bound by whoever asks, so that a mistake is
 * known at once; the loops take them over. */
#include "proxy/client/listeners.h"

#include "proxy/base/address.h"
#include "proxy/base/log.h"
#include "proxy/process/inherited.h"
#include "proxy/client/listener.h"

#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct listeners {
	struct loop *const *loops;
	size_t loop_count;
	char **open; /* addresses */
	size_t count;
};

/* What one loop is to have. */
struct place_change {
	char *address;
	uint32_t listen_index;
	int socket; /* -1: the loop has one */
};

struct listeners_task {
	struct loop_task task; /* first */
	size_t count;
	struct place_change places[];
};

struct listener_place {
	const char *address;
	uint32_t listen_index;
};

struct listeners *listeners_new(struct loop *const *loops, size_t loop_count)
{
	struct listeners *listeners = must_calloc(1, sizeof(*listeners));

	listeners->loops = loops;
	listeners->loop_count = loop_count;
	return listeners;
}

static void forget_open(struct listeners *listeners)
{
	for (size_t i = 0; i < listeners->count; i++)
		free(listeners->open[i]);
	free((void *)listeners->open);
}

void listeners_free(struct listeners *listeners)
{
	if (!listeners)
		return;
	forget_open(listeners);
	free(listeners);
}

static bool is_open(const struct listeners *listeners, const char *address)
{
	for (size_t i = 0; i < listeners->count; i++)
		if (strcmp(listeners->open[i], address) == 0)
			return true;
	return false;
}

static void task_free(struct listeners_task *task)
{
	for (size_t i = 0; task && i < task->count; i++) {
		if (task->places[i].socket >= 0)
			close(task->places[i].socket);
		free(task->places[i].address);
	}
	free(task);
}

static struct place_change *add_change(struct listeners_task *task,
				       const struct listener_place *place, int socket)
{
	struct place_change *change = &task->places[task->count++];

	change->address = must_strndup(place->address, strlen(place->address));
	change->listen_index = place->listen_index;
	change->socket = socket;
	return change;
}

/* Of a Spillway that had more loops: somebody must accept from each. */
static void add_passed_on(struct listeners_task *task, const struct listener_place *places,
			  size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (int socket; (socket = inherited_take_more(places[i].address)) >= 0;)
			add_change(task, &places[i], socket);
}

/* Binds what is new, once for each loop. NULL: why not. */
static struct listeners_task *task_new(const struct listeners *listeners,
				       const struct listener_place *places, size_t count,
				       char *reason, size_t size)
{
	size_t most = count + inherited_count();
	struct listeners_task *task =
		must_calloc(1, sizeof(*task) + most * sizeof(task->places[0]));

	for (size_t i = 0; i < count; i++) {
		struct place_change *change = add_change(task, &places[i], -1);

		if (is_open(listeners, change->address))
			continue;
		change->socket = listener_bind(change->address, reason, size);
		if (change->socket >= 0)
			continue;
		task_free(task);
		return NULL;
	}
	return task;
}

static struct place_change *find_place(struct listeners_task *task, const char *address)
{
	for (size_t i = 0; i < task->count; i++)
		if (strcmp(task->places[i].address, address) == 0)
			return &task->places[i];
	return NULL;
}

/* Drivers take connections to one address for such to one server. */
static void move_to_place(struct listener *listener, uint32_t index)
{
	const struct places *places = listener->loop->service->places;
	uint32_t before = listener->listen_index;

	listener->listen_index = index;
	if (strcmp(places_latest(places, before), places_latest(places, index)) != 0)
		loop_close_monitors(listener->loop, before);
}

/* On the loop's thread. */
static void listeners_on_task(struct loop *loop, struct loop_task *posted)
{
	struct listeners_task *task = (struct listeners_task *)(void *)posted;
	struct listener *listener = loop->listeners, *next;
	const struct place_change *place;

	for (; listener; listener = next) {
		next = listener->next;
		place = find_place(task, listener->address);
		if (place) {
			move_to_place(listener, place->listen_index);
			continue;
		}
		listener_accept(listener);
		listener_close(listener);
	}
	for (size_t i = 0; i < task->count && !loop->drain_until && !loop->left; i++) {
		if (task->places[i].socket < 0)
			continue;
		listener_open(loop, task->places[i].address, task->places[i].listen_index,
			      task->places[i].socket);
		task->places[i].socket = -1;
	}
	task_free(task);
}

/* A name is looked up only where ports agree: that may take long. */
static bool meet(const char *one, const char *other, address_meeting *agree)
{
	struct sockaddr_storage first = {0}, second = {0};

	return strcmp(strrchr(one, ':'), strrchr(other, ':')) == 0 &&
	       address_resolve_now(one, &first) && address_resolve_now(other, &second) &&
	       agree(&first, &second);
}

static bool overlaps_open(const struct listeners *listeners, const char *address)
{
	for (size_t i = 0; i < listeners->count; i++)
		if (meet(listeners->open[i], address, address_overlaps))
			return true;
	return false;
}

/* Else the system would deal connections out to them. */
static bool probe_each_other(const struct listener_place *places, size_t count, char *reason,
			     size_t size)
{
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < i; j++) {
			if (!meet(places[j].address, places[i].address, address_equals))
				continue;
			snprintf(reason, size,
				 "cannot listen on '%s': that is the address '%s' of another entry",
				 places[i].address, places[j].address);
			return false;
		}
	return true;
}

/* That another program does not listen there; our own sockets may share an address. */
static bool probe_new(const struct listeners *listeners, const struct listener_place *places,
		      size_t count, char *reason, size_t size)
{
	for (size_t i = 0; i < count; i++)
		if (!is_open(listeners, places[i].address) &&
		    !listener_probe(places[i].address, overlaps_open(listeners, places[i].address),
				    reason, size))
			return false;
	return true;
}

/* A task for each loop. */
struct listeners_change {
	struct listeners *listeners;
	struct listeners_task **tasks;
	char **open; /* what will be */
	size_t count;
};

static void change_free(struct listeners_change *change)
{
	free((void *)change->tasks);
	free(change);
}

static struct listeners_change *change_new(struct listeners *listeners,
					   const struct listener_place *places, size_t count)
{
	struct listeners_change *change = must_calloc(1, sizeof(*change));

	change->listeners = listeners;
	change->tasks = must_calloc(listeners->loop_count, sizeof(*change->tasks));
	change->open = must_calloc(count ? count : 1, sizeof(*change->open));
	change->count = count;
	for (size_t i = 0; i < count; i++)
		change->open[i] = must_strndup(places[i].address, strlen(places[i].address));
	return change;
}

static struct listeners_change *prepare(struct listeners *listeners,
					const struct listener_place *places, size_t count,
					char *reason, size_t size)
{
	struct listeners_change *change = change_new(listeners, places, count);
	bool good = probe_each_other(places, count, reason, size) &&
		    probe_new(listeners, places, count, reason, size);

	for (size_t i = 0; good && i < listeners->loop_count; i++)
		good = (change->tasks[i] = task_new(listeners, places, count, reason, size));
	if (good) {
		add_passed_on(change->tasks[0], places, count);
		return change;
	}
	listeners_drop(change);
	return NULL;
}

struct listeners_change *listeners_prepare(struct listeners *listeners, const struct config *config,
					   const struct places *places, char *reason, size_t size)
{
	struct listener_place *list = must_calloc(config->listen_count, sizeof(*list));
	struct listeners_change *change;
	size_t count = 0;

	for (size_t i = 0; i < config->listen_count; i++)
		if (places_server(places, i))
			list[count++] =
				(struct listener_place){config->listen[i].address, (uint32_t)i};
	change = prepare(listeners, list, count, reason, size);
	free(list);
	return change;
}

void listeners_take(struct listeners_change *change)
{
	struct listeners *listeners = change->listeners;

	for (size_t i = 0; i < listeners->loop_count; i++) {
		change->tasks[i]->task.run = listeners_on_task;
		loop_post(listeners->loops[i], &change->tasks[i]->task);
	}
	forget_open(listeners);
	listeners->open = change->open;
	listeners->count = change->count;
	change_free(change);
}

void listeners_drop(struct listeners_change *change)
{
	if (!change)
		return;
	for (size_t i = 0; i < change->listeners->loop_count; i++)
		task_free(change->tasks[i]);
	for (size_t i = 0; i < change->count; i++)
		free(change->open[i]);
	free((void *)change->open);
	change_free(change);
}

void listeners_tell(const char *address, const char *server)
{
	log_info("2001 listening on '%s' for server '%s'", address, server);
}

/* ---- For an upgrade. */

struct socket_list {
	pthread_mutex_t lock;
	sem_t answered; /* once by each loop */
	int *sockets;
	size_t count;
	bool failed;
};

struct sockets_task {
	struct loop_task task; /* first */
	struct socket_list *list;
};

static void add_socket(struct socket_list *list, int socket)
{
	int copy = fcntl(socket, F_DUPFD_CLOEXEC, 3);

	list->failed = list->failed || copy < 0;
	if (copy < 0)
		return;
	list->sockets = must_realloc(list->sockets, (list->count + 1) * sizeof(*list->sockets));
	list->sockets[list->count++] = copy;
}

/* On the loop's thread. */
static void sockets_on_task(struct loop *loop, struct loop_task *posted)
{
	struct socket_list *list = ((struct sockets_task *)(void *)posted)->list;

	free(posted);
	pthread_mutex_lock(&list->lock);
	for (const struct listener *at = loop->listeners; at; at = at->next)
		add_socket(list, at->socket);
	pthread_mutex_unlock(&list->lock);
	sem_post(&list->answered);
}

static void ask_loops(const struct listeners *listeners, struct socket_list *list)
{
	for (size_t i = 0; i < listeners->loop_count; i++) {
		struct sockets_task *task = must_calloc(1, sizeof(*task));

		*task = (struct sockets_task){.task.run = sockets_on_task, .list = list};
		loop_post(listeners->loops[i], &task->task);
	}
	for (size_t answered = 0; answered < listeners->loop_count;)
		answered += sem_wait(&list->answered) == 0;
}

int *listeners_sockets(const struct listeners *listeners, size_t *count)
{
	struct socket_list list = {.sockets = must_malloc(sizeof(int))};

	require(sem_init(&list.answered, 0, 0) == 0);
	pthread_mutex_init(&list.lock, NULL);
	ask_loops(listeners, &list);
	pthread_mutex_destroy(&list.lock);
	sem_destroy(&list.answered);
	*count = list.count;
	if (!list.failed)
		return list.sockets;
	for (size_t i = 0; i < list.count; i++)
		close(list.sockets[i]);
	free(list.sockets);
	return NULL;
}
