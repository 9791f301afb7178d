/* What each configured server calls itself, and the address that clients shall call it by. */
#include "proxy/upstream/member_names.h"

#include "protocol/cursor.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct member_names {
	const struct config *config;
	const struct places *places;
	pthread_mutex_t lock;
	char **names; /* one a listener: NULL: not known yet; "": it has none */
};

struct member_names *member_names_new(const struct config *config, const struct places *places)
{
	struct member_names *names = must_calloc(1, sizeof(*names));

	names->config = config;
	names->places = places;
	names->names = must_calloc(config->listen_count, sizeof(char *));
	pthread_mutex_init(&names->lock, NULL);
	return names;
}

void member_names_free(struct member_names *names)
{
	for (size_t i = 0; i < names->config->listen_count; i++)
		free(names->names[i]);
	free(names->names);
	pthread_mutex_destroy(&names->lock);
	free(names);
}

static void keep_name(struct member_names *names, size_t listen_index, char *name)
{
	require(listen_index < names->config->listen_count);
	pthread_mutex_lock(&names->lock);
	free(names->names[listen_index]);
	names->names[listen_index] = name;
	pthread_mutex_unlock(&names->lock);
}

void member_names_learn(struct member_names *names, size_t listen_index, struct bytes me)
{
	if (!names->config->replica_set.on)
		keep_name(names, listen_index, must_strndup((const char *)me.data, me.length));
}

void member_names_copy(struct member_names *names, struct member_names *from, size_t listen_index)
{
	char *name;

	pthread_mutex_lock(&from->lock);
	name = from->names[listen_index];
	name = name ? must_strndup(name, strlen(name)) : NULL;
	pthread_mutex_unlock(&from->lock);
	keep_name(names, listen_index, name);
}

void member_names_set(struct member_names *names, size_t listen_index, const char *name)
{
	require(names->config->replica_set.on);
	keep_name(names, listen_index, name ? must_strndup(name, strlen(name)) : NULL);
}

void member_names_learn_hello(struct member_names *names, size_t listen_index, struct bytes hello)
{
	struct element element;
	struct bytes me = {(const uint8_t *)"", 0};

	if (document_truth(hello, "isreplicaset"))
		return;
	if (document_find(hello, "me", &element) && !element_string(&element, &me))
		return;
	member_names_learn(names, listen_index, me);
}

bool member_names_known(struct member_names *names, size_t listen_index)
{
	bool known;

	pthread_mutex_lock(&names->lock);
	known = names->names[listen_index] != NULL;
	pthread_mutex_unlock(&names->lock);
	return known;
}

must_check bool member_names_find(struct member_names *names, struct bytes member,
				  struct bytes *advertised)
{
	bool found = false;

	pthread_mutex_lock(&names->lock);
	for (size_t i = 0; !found && i < names->config->listen_count; i++) {
		found = places_server(names->places, i) && names->names[i] &&
			bytes_are(member, names->names[i]);
		if (found)
			*advertised = bytes_of(names->config->listen[i].advertise);
	}
	pthread_mutex_unlock(&names->lock);
	return found;
}

static bool all_known(struct member_names *names)
{
	for (size_t i = 0; i < names->config->listen_count; i++) {
		if (places_server(names->places, i) && !member_names_known(names, i))
			return false;
	}
	return true;
}

static bool list_covered(struct member_names *names, struct bytes list, char *member, size_t size)
{
	struct cursor cursor;
	struct element element;
	struct bytes name, advertised;

	if (!cursor_open(&cursor, list))
		return true;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT) {
		if (!element_string(&element, &name) || member_names_find(names, name, &advertised))
			continue;
		snprintf(member, size, "%.*s", (int)name.length, (const char *)name.data);
		return false;
	}
	return true;
}

must_check bool member_names_cover(struct member_names *names, struct bytes hello, char *member,
				   size_t size)
{
	/* Arbiters hold no data: no client has business there. */
	static const char *const lists[] = {"hosts", "passives"};
	struct element element;
	struct bytes list;

	if (!all_known(names))
		return true;
	for (size_t i = 0; i < ARRAY_LENGTH(lists); i++) {
		if (document_find(hello, lists[i], &element) && element_document(&element, &list) &&
		    !list_covered(names, list, member, size))
			return false;
	}
	return true;
}
