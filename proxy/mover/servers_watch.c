/* Asks whether the servers are there, and tells what is missing. */
#include "proxy/mover/servers_watch.h"
#include "proxy/base/clock.h"

#include "proxy/upstream/majority.h"
#include "proxy/upstream/link.h"
#include "proxy/mover/queue.h"
#include "protocol/cursor.h"
#include "rules/rule/text.h"

#include <stdlib.h>

#define WATCH_MS 1000
#define MEMBERS_MS 10000 /* how often all servers are asked while something is missing */

struct watching {
	const struct servers_watch *watch;
	struct link *link; /* of its own: the others may be waiting for what is missing */
	bool early;        /* it was made before the servers had been looked at */
	struct majority majority;
	char set_name[128];              /* as a hello had it at last */
	struct majority_member *members; /* as many as there are now */
	size_t count;
	int64_t members_due;
	bool told;
};

static void open_link(struct watching *watching)
{
	const struct servers_watch *watch = watching->watch;
	const char *uri = watch->config->upstream_uri;
	bson_error_t error;

	link_free(watching->link);
	watching->early = !watch->works(watch->context);
	watching->link = watching->early ? link_open_early(uri, NULL, watch->stopping, &error)
					 : link_open_any(uri, watch->stopping, &error);
	watching->majority.acknowledged = 0;
}

/* The hello of some server; empty where none answers. */
static struct bytes ask(struct watching *watching)
{
	const struct servers_watch *watch = watching->watch;
	bool early = !watch->works(watch->context);
	struct bytes hello = {0};

	if (watching->link && watching->early == early &&
	    link_ask_hello(watching->link) != LINK_LOST) {
		hello = link_body(watching->link);
	} else {
		open_link(watching);
		if (watching->link)
			hello = link_hello(watching->link);
	}
	if (hello.length > 0)
		watch->answered(watch->context);
	return hello;
}

static void keep_name(struct watching *watching, struct bytes hello)
{
	struct element name;
	struct bytes text;

	if (document_find(hello, "setName", &name) && element_string(&name, &text))
		snprintf(watching->set_name, sizeof(watching->set_name), "%.*s", (int)text.length,
			 (const char *)text.data);
}

static void look(struct watching *watching)
{
	int64_t now = clock_now();
	struct bytes hello = ask(watching);

	keep_name(watching, hello);
	majority_take(&watching->majority, hello, now);
}

static void ask_member(struct watching *watching, struct majority_member *member)
{
	const struct servers_watch *watch = watching->watch;
	struct element primary;
	bson_error_t error;
	struct link *link = link_open_early(watch->config->upstream_uri, member->server,
					    watch->stopping, &error);

	member->answers = link;
	member->primary = link && document_find(link_hello(link), "isWritablePrimary", &primary) &&
			  element_truth(&primary);
	link_free(link);
}

static void find_members(struct watching *watching)
{
	const struct servers_watch *watch = watching->watch;
	const char *server;

	watching->count = 0;
	for (size_t i = 0; i < watch->config->listen_count; i++)
		if ((server = places_server(watch->places, i)))
			watching->members[watching->count++] =
				(struct majority_member){.server = server};
}

/* True where one of them is a primary that the server which is asked does not know of. */
static bool ask_members(struct watching *watching)
{
	bool primary = false;

	find_members(watching);
	for (size_t i = 0; i < watching->count; i++) {
		struct majority_member *member = &watching->members[i];

		if (watching->majority.lack == MAJORITY_NO_ANSWER) {
			member->answers = false; /* all have been asked */
			continue;
		}
		ask_member(watching, member);
		primary = primary || member->primary;
		(void)ask(watching); /* that we are ready must not hang on those that are silent */
	}
	return primary && watching->majority.lack == MAJORITY_NO_PRIMARY;
}

static void tell_lack(struct watching *watching)
{
	const struct servers_watch *watch = watching->watch;
	auto_buffer struct buffer text = {0};

	if (atomic_load(watch->stopping))
		return;
	majority_say(&text, watching->majority.lack, bytes_of(watching->set_name),
		     watching->members, watching->count);
	buffer_append(&text, "", 1);
	watch->lacks(watch->context, (const char *)text.data, !watching->told);
	watching->told = true;
}

static void tell_back(struct watching *watching)
{
	watching->watch->back(watching->watch->context, watching->told);
	watching->told = false;
	watching->members_due = 0;
}

static void judge(struct watching *watching)
{
	if (watching->majority.lack == MAJORITY_THERE) {
		tell_back(watching);
		return;
	}
	if (!majority_is_lost(&watching->majority, clock_now()) ||
	    clock_now() < watching->members_due)
		return;
	if (ask_members(watching)) {
		link_free(watching->link); /* the server is apart from the others: ask another */
		watching->link = NULL;
		return;
	}
	tell_lack(watching);
	watching->members_due = clock_now() + MEMBERS_MS;
}

void servers_watch_run(const struct servers_watch *watch)
{
	struct watching watching = {.watch = watch};

	watching.members = must_calloc(watch->config->listen_count, sizeof(*watching.members));
	while (!atomic_load(watch->stopping)) {
		watch->pause(watch->context, WATCH_MS);
		if (atomic_load(watch->stopping))
			break;
		look(&watching);
		judge(&watching);
	}
	link_free(watching.link);
	free(watching.members);
}
