/* What the admin address tells in JSON: the rules with what became of them, and our connections. */
#include "proxy/admin/status.h"

#include "proxy/base/address.h"
#include "proxy/base/json_text.h"
#include "proxy/upstream/target.h"
#include "rules/config/rule_document.h"
#include "rules/rule/text.h"

#include <arpa/inet.h>
#include <bson/bson.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Rules. */

void status_reason(const struct status *status, const struct target_view *view, char *text,
		   size_t size)
{
	const char *quoted = status->hidden ? strchr(view->reason, '{') : NULL;

	if (quoted)
		snprintf(text, size, "%.*s(%s)", (int)(quoted - view->reason), view->reason,
			 STATUS_HIDDEN);
	else
		snprintf(text, size, "%s", view->reason);
}

static void write_longest(struct buffer *out, const struct status *status,
			  const struct target_view *view)
{
	size_t array = writer_open_array(out, "longest"), document;
	char name[12];

	for (size_t i = 0; i < TARGET_LONG_COUNT && view->longest[i].id; i++) {
		const struct target_long *entry = &view->longest[i];
		struct element id = {.type = entry->id_type,
				     .value = {entry->id, entry->id_length}};

		document = writer_open_document(out, writer_index(name, i));
		if (status->hidden)
			writer_string(out, "document", STATUS_HIDDEN);
		else
			json_write_value(out, "_id", &id);
		writer_int64(out, "elements", entry->elements);
		writer_close(out, document);
	}
	writer_close(out, array);
}

static void write_target(struct buffer *out, const char *name, const struct status *status,
			 const struct target_view *view)
{
	static const char *const words[] = {
		[FITNESS_UNKNOWN] = "unknown", [FITNESS_FIT] = "fit", [FITNESS_UNFIT] = "unfit"};
	auto_free char *namespace = bson_strdup_printf("%s.%s", view->database, view->collection);
	auto_free char *overflow =
		bson_strdup_printf("%s.%s", view->overflow_database, view->overflow_collection);
	size_t document = writer_open_document(out, name);
	char reason[sizeof(view->reason) + sizeof(STATUS_HIDDEN)];

	json_write_text(out, "namespace", namespace);
	json_write_text(out, "overflow", overflow);
	writer_string(out, "fitness", words[view->fitness]);
	if (view->fitness == FITNESS_UNFIT) {
		status_reason(status, view, reason, sizeof(reason));
		json_write_text(out, "reason", reason);
	}
	writer_int64(out, "outliers", view->outliers);
	writer_int64(out, "elements", view->elements);
	write_longest(out, status, view);
	writer_close(out, document);
}

/* The namespaces of each rule, by the rule's place in its set: arrays that are written side by
 * side, as the mover has met them. */
struct met {
	struct buffer array;
	size_t count;
};

static struct met *collect_targets(const struct status *status, size_t rules)
{
	struct met *met = must_calloc(rules, sizeof(*met));
	struct target_view view;
	char name[12];

	for (size_t i = 0; i < rules; i++)
		(void)writer_open(&met[i].array);
	for (size_t i = 0; mover_view(status->mover, i, &view); i++) {
		struct met *of_rule = &met[view.rule->index];

		write_target(&of_rule->array, writer_index(name, of_rule->count++), status, &view);
		target_view_fini(&view);
	}
	for (size_t i = 0; i < rules; i++)
		writer_close(&met[i].array, 0);
	return met;
}

static void write_rule(struct buffer *out, const char *name, const struct rule *rule, bool paused,
		       const struct met *met)
{
	size_t document = writer_open_document(out, name);

	rule_write(out, rule);
	writer_bool(out, "paused", paused);
	writer_array(out, "namespaces", buffer_view(&met->array));
	writer_close(out, document);
}

void status_rules(struct buffer *out, const struct status *status)
{
	auto_buffer struct buffer document = {0};
	size_t start = writer_open(&document), array = writer_open_array(&document, "rules");
	size_t count = rule_set_count(status->config->rules);
	auto_free struct met *met = collect_targets(status, count);
	char name[12];

	for (size_t i = 0; i < count; i++) {
		const struct rule *rule = rule_set_at(status->config->rules, i);

		write_rule(&document, writer_index(name, i), rule,
			   mover_pauses(status->mover, rule), &met[i]);
		buffer_fini(&met[i].array);
	}
	writer_close(&document, array);
	writer_close(&document, start);
	json_append(out, buffer_view(&document));
}

/* A reload. */

void status_reload_asked(struct buffer *out, uint64_t number)
{
	auto_buffer struct buffer document = {0};
	size_t start = writer_open(&document);

	writer_int64(&document, "asked", (int64_t)number);
	writer_int64(&document, "pid", getpid());
	writer_close(&document, start);
	json_append(out, buffer_view(&document));
}

void status_reload(struct buffer *out, const struct reload_outcome *outcome)
{
	auto_buffer struct buffer document = {0};
	auto_free char *report = text_valid(outcome->report);
	size_t start = writer_open(&document);

	writer_int64(&document, "pid", getpid());
	writer_int64(&document, "ended", (int64_t)outcome->ended);
	writer_bool(&document, "good", outcome->good);
	writer_string(&document, "report", report);
	writer_close(&document, start);
	json_append(out, buffer_view(&document));
}

/* Connections. */

static bool is_server_port(const struct status *status, in_port_t port)
{
	for (size_t i = 0; i < status->config->listen_count; i++) {
		const char *server = places_latest(status->places, i);
		const char *colon = server ? strrchr(server, ':') : NULL;

		if (colon && strtol(colon + 1, NULL, 10) == ntohs(port))
			return true;
	}
	return false;
}

static bool name_address(const struct sockaddr_storage *address, char *text, size_t size)
{
	char host[INET6_ADDRSTRLEN];
	bool six = address->ss_family == AF_INET6;
	const void *bytes =
		six ? (const void *)&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr
		    : (const void *)&((const struct sockaddr_in *)(const void *)address)->sin_addr;

	if (!inet_ntop(address->ss_family, bytes, host, sizeof(host)))
		return false;
	snprintf(text, size, six ? "[%s]:%d" : "%s:%d", host, ntohs(address_port(address)));
	return true;
}

/* Our end of a descriptor that is connected to a server. It may be closed, or another one, at any
 * moment: then the kernel says so, or its peer is no server. */
static bool name_connection(const struct status *status, int descriptor, char *text, size_t size)
{
	struct sockaddr_storage peer = {0}, own = {0};
	socklen_t length = sizeof(peer);

	if (getpeername(descriptor, (struct sockaddr *)&peer, &length) != 0 ||
	    !is_server_port(status, address_port(&peer)))
		return false;
	length = sizeof(own);
	return getsockname(descriptor, (struct sockaddr *)&own, &length) == 0 &&
	       address_port(&own) != 0 && name_address(&own, text, size);
}

void status_connections(struct buffer *out, const struct status *status)
{
	auto_buffer struct buffer document = {0};
	size_t start = writer_open(&document), array = writer_open_array(&document, "connections");
	DIR *descriptors = opendir("/proc/self/fd");
	const struct dirent *entry;
	char text[INET6_ADDRSTRLEN + 10], name[12];
	size_t index = 0;

	while (descriptors && (entry = readdir(descriptors))) {
		if (name_connection(status, (int)strtol(entry->d_name, NULL, 10), text,
				    sizeof(text)))
			writer_string(&document, writer_index(name, index++), text);
	}
	if (descriptors)
		closedir(descriptors);
	writer_close(&document, array);
	writer_close(&document, start);
	json_append(out, buffer_view(&document));
}
