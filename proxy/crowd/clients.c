/* Keeps the kinds of clients that have connections. Touched when a client has said its name, and
 * when its connection is gone. */
#include "proxy/crowd/clients.h"

#include <stdlib.h>
#include <string.h>

#define KINDS_MAX 256
#define OTHERS "(other clients)" /* all further kinds together */

struct client_entry {
	struct client_entry *next, *previous;
	char *application, *driver;
	char host[PEER_TEXT];
	int64_t connections;
};

static struct client_entry *first;
static size_t kinds;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void name_host(const struct peer *peer, char host[PEER_TEXT])
{
	char *colon;

	(void)peer_text(peer, host);
	colon = strrchr(host, ':');
	if (peer->known && colon)
		*colon = '\0';
}

static struct client_entry *find(const char *application, const char *driver, const char *host)
{
	for (struct client_entry *entry = first; entry; entry = entry->next)
		if (strcmp(entry->application, application) == 0 &&
		    strcmp(entry->driver, driver) == 0 && strcmp(entry->host, host) == 0)
			return entry;
	return NULL;
}

static struct client_entry *add(const char *application, const char *driver, const char *host)
{
	struct client_entry *entry = must_calloc(1, sizeof(*entry));

	kinds++;
	entry->application = must_strndup(application, strlen(application));
	entry->driver = must_strndup(driver, strlen(driver));
	memcpy(entry->host, host, strlen(host) + 1);
	entry->next = first;
	if (first)
		first->previous = entry;
	first = entry;
	return entry;
}

struct client_entry *clients_join(const char *application, const char *driver,
				  const struct peer *peer)
{
	const char *name = application ? application : "", *by = driver ? driver : "";
	struct client_entry *entry;
	char host[PEER_TEXT];

	name_host(peer, host);
	pthread_mutex_lock(&lock);
	entry = find(name, by, host);
	if (!entry && kinds < KINDS_MAX)
		entry = add(name, by, host);
	if (!entry)
		entry = find(OTHERS, "", "");
	if (!entry)
		entry = add(OTHERS, "", "");
	entry->connections++;
	pthread_mutex_unlock(&lock);
	return entry;
}

static void take_out(struct client_entry *entry)
{
	if (entry->previous)
		entry->previous->next = entry->next;
	else
		first = entry->next;
	if (entry->next)
		entry->next->previous = entry->previous;
	kinds--;
	free(entry->application);
	free(entry->driver);
	free(entry);
}

void clients_leave(struct client_entry *entry)
{
	if (!entry)
		return;
	pthread_mutex_lock(&lock);
	if (--entry->connections == 0)
		take_out(entry);
	pthread_mutex_unlock(&lock);
}

void clients_each(void (*each)(void *context, const struct client_view *view), void *context)
{
	pthread_mutex_lock(&lock);
	for (const struct client_entry *entry = first; entry; entry = entry->next) {
		const struct client_view view = {entry->application, entry->driver, entry->host,
						 entry->connections};

		each(context, &view);
	}
	pthread_mutex_unlock(&lock);
}
