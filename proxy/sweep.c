/* The sweep: looks through collections for outliers and orphans that nobody noted.
 *
 * A page is measured in documents looked at, not found, and its size in the time it took; between
 * pages it rests three times as long as it worked. Bounds are index bounds (min, max), which don't
 * stop at a change of type. */
#include "proxy/sweep.h"

#include "proxy/log.h"
#include "proxy/mover_look.h"
#include "rules/glob.h"

#include <bson/bson.h>
#include <stdlib.h>

#define PAGE_FIRST 500
#define PAGE_LEAST 10
#define PAGE_MOST 5000
#define PAGE_FAST_MS 25
#define PAGE_SLOW_MS 100
#define RESTS 3
#define REST_MOST_MS 2000
#define LINKS_PAGE 2000

/* A copied value: where a page ended. */
struct place {
	uint8_t type; /* 0: the start */
	struct bytes value;
};

static void place_set(struct place *place, uint8_t type, struct bytes value)
{
	uint8_t *copy = must_malloc(value.length + 1);

	if (value.length > 0)
		memcpy(copy, value.data, value.length);
	free((void *)place->value.data);
	*place = (struct place){type, {copy, value.length}};
}

struct sweeping {
	struct mover *mover;
	struct link *link;
	struct mover_target *target;
	int32_t page;
	int64_t began;
	size_t found;
};

/* Rests after a page, longer while the queue is full, and chooses the next page's size. */
static void rest(struct sweeping *sweeping)
{
	int64_t took = mover_clock() - sweeping->began, pause = took * RESTS + 1;

	if (took > PAGE_SLOW_MS && sweeping->page > PAGE_LEAST)
		sweeping->page /= 2;
	else if (took < PAGE_FAST_MS && sweeping->page < PAGE_MOST)
		sweeping->page *= 2;
	mover_pause(sweeping->mover, pause < REST_MOST_MS ? pause : REST_MOST_MS);
	while (mover_queue_count(sweeping->mover->rounds) > MOVER_QUEUE_MAX / 2 &&
	       !atomic_load(&sweeping->mover->stopping))
		mover_pause(sweeping->mover, REST_MOST_MS);
	sweeping->began = mover_clock();
}

static void write_bound(struct buffer *out, const char *name, const struct place *place)
{
	size_t bound;

	if (!place->type)
		return;
	bound = writer_open_document(out, name);
	writer_renamed(out, "_id", &(struct element){.type = place->type, .value = place->value});
	writer_close(out, bound);
}

static void write_by_id(struct buffer *out)
{
	size_t document = writer_open_document(out, "projection");

	writer_int32(out, "_id", 1);
	writer_close(out, document);
	document = writer_open_document(out, "hint");
	writer_int32(out, "_id", 1);
	writer_close(out, document);
}

/* Where the next page ends: the _id a page's size behind `from`. */
static enum link_result find_page_end(struct sweeping *sweeping, const struct place *from,
				      struct place *to)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);
	struct bytes document;
	struct element id;
	bool found = false;
	enum link_result result;

	writer_string(&out, "find", sweeping->target->collection);
	write_by_id(&out);
	write_bound(&out, "min", from);
	writer_int32(&out, "skip", sweeping->page);
	writer_int32(&out, "limit", 1);
	writer_bool(&out, "singleBatch", true);
	writer_close(&out, start);
	result = link_find_one(sweeping->link, sweeping->target->database, buffer_view(&out),
			       &document, &found);
	if (result == LINK_DONE && found && document_find(document, "_id", &id))
		place_set(to, id.type, id.value);
	return result;
}

static void take_outlier(void *context, struct bytes document)
{
	struct sweeping *sweeping = context;
	struct element id;

	sweeping->found++;
	if (document_find(document, "_id", &id))
		mover_queue_look(sweeping->mover->rounds, sweeping->target, id.type, id.value,
				 mover_clock());
}

static enum link_result look_at_page(struct sweeping *sweeping, const struct place *from,
				     const struct place *to)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);

	writer_string(&out, "find", sweeping->target->collection);
	look_write_candidates(&out, "filter", sweeping->target->rule);
	write_by_id(&out);
	write_bound(&out, "min", from);
	write_bound(&out, "max", to);
	writer_close(&out, start);
	return link_find(sweeping->link, sweeping->target->database, buffer_view(&out),
			 take_outlier, sweeping);
}

static enum link_result sweep_main(struct sweeping *sweeping)
{
	struct place from = {0}, to = {0};
	enum link_result result;

	do {
		to.type = 0;
		result = find_page_end(sweeping, &from, &to);
		if (result == LINK_DONE)
			result = look_at_page(sweeping, &from, &to);
		if (to.type)
			place_set(&from, to.type, to.value);
		rest(sweeping);
	} while (result == LINK_DONE && to.type);
	free((void *)from.value.data);
	free((void *)to.value.data);
	return result;
}

/* Orphans. */

/* One link value of a page, and how many batches it has. */
struct linked {
	struct place link;
	int64_t batches;
	bool alive; /* its main document accounts for so many */
};

struct links {
	struct sweeping *sweeping;
	struct linked *all;
	size_t count;
	int64_t documents;
};

static void links_reset(struct links *links)
{
	for (size_t i = 0; i < links->count; i++)
		free((void *)links->all[i].link.value.data);
	links->count = 0;
	links->documents = 0;
}

static bool is_link(const struct linked *linked, const struct element *link)
{
	return linked->link.type == link->type && bytes_equal(linked->link.value, link->value);
}

static void take_link(void *context, struct bytes document)
{
	struct links *links = context;
	struct element link;

	links->documents++;
	if (!document_find(document, links->sweeping->target->rule->overflow.link, &link))
		return;
	if (links->count == 0 || !is_link(&links->all[links->count - 1], &link)) {
		links->all[links->count] = (struct linked){0};
		place_set(&links->all[links->count++].link, link.type, link.value);
	}
	links->all[links->count - 1].batches++;
}

/* The next page of link values, from the index alone. `after`: from behind the link, else from its
 * first batch. */
static enum link_result find_links(struct links *links, const struct place *from, bool after)
{
	const struct mover_target *target = links->sweeping->target;
	const char *link = target->rule->overflow.link, *batch = batch_path(target->rule);
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), document;

	writer_string(&out, "find", target->overflow_collection);
	document = writer_open_document(&out, "projection");
	writer_int32(&out, "_id", 0);
	writer_int32(&out, link, 1);
	writer_close(&out, document);
	document = writer_open_document(&out, "hint");
	writer_int32(&out, link, 1);
	writer_int32(&out, batch, 1);
	writer_close(&out, document);
	if (from->type) {
		document = writer_open_document(&out, "min");
		writer_renamed(&out, link,
			       &(struct element){.type = from->type, .value = from->value});
		writer_renamed(
			&out, batch,
			&(struct element){.type = after ? BSON_BYTE_MAX_KEY : BSON_BYTE_MIN_KEY});
		writer_close(&out, document);
	}
	writer_int32(&out, "limit", LINKS_PAGE);
	writer_close(&out, start);
	return link_find(links->sweeping->link, target->overflow_database, buffer_view(&out),
			 take_link, links);
}

/* A main document accounts for as many batches as its n needs, each full. */
static void take_owner(void *context, struct bytes document)
{
	struct links *links = context;
	const struct rule *rule = links->sweeping->target->rule;
	struct element id, number;
	int64_t moved = 0;

	if (!document_find(document, "_id", &id) || !document_find(document, "moved", &number) ||
	    !element_integer(&number, &moved))
		return;
	for (size_t i = 0; i < links->count; i++) {
		struct linked *linked = &links->all[i];

		if (is_link(linked, &id))
			linked->alive = linked->batches <= (moved + rule->overflow.batch_size - 1) /
								   rule->overflow.batch_size;
	}
}

static enum link_result find_owners(struct links *links)
{
	const struct mover_target *target = links->sweeping->target;
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), filter, condition, in, projection;
	char name[12], path[STATE_PATH_MAX + 1] = "$";

	writer_string(&out, "find", target->collection);
	filter = writer_open_document(&out, "filter");
	condition = writer_open_document(&out, "_id");
	in = writer_open_array(&out, "$in");
	for (size_t i = 0; i < links->count; i++)
		writer_renamed(&out, writer_index(name, i),
			       &(struct element){.type = links->all[i].link.type,
						 .value = links->all[i].link.value});
	writer_close(&out, in);
	writer_close(&out, condition);
	writer_close(&out, filter);
	projection = writer_open_document(&out, "projection");
	writer_int32(&out, "_id", 1);
	state_path(path + 1, target->rule, "n");
	writer_string(&out, "moved", path);
	writer_close(&out, projection);
	writer_close(&out, start);
	return link_find(links->sweeping->link, target->database, buffer_view(&out), take_owner,
			 links);
}

/* Who looks for garbage decides; these are only worth a look. */
static void nominate(struct links *links)
{
	struct sweeping *sweeping = links->sweeping;

	for (size_t i = 0; i < links->count; i++) {
		struct linked *linked = &links->all[i];

		if (!linked->alive)
			mover_queue_look(sweeping->mover->garbage, sweeping->target,
					 linked->link.type, linked->link.value, mover_clock());
	}
}

static enum link_result sweep_page(struct links *links, struct place *from, bool *after, bool *last)
{
	enum link_result result = find_links(links, from, *after);

	if (result != LINK_DONE)
		return result;
	*last = links->documents < LINKS_PAGE;
	if (links->count == 0)
		return LINK_DONE;
	/* The page's last link may go on behind it: it is counted by the next page, unless it fills
	 * this one alone. */
	*after = links->count == 1;
	if (!*last) {
		struct place *end = &links->all[links->count - 1].link;

		place_set(from, end->type, end->value);
		if (links->count > 1)
			free((void *)links->all[--links->count].link.value.data);
	}
	result = find_owners(links);
	if (*after && !*last)
		links->all[0].alive = false; /* more batches than were counted */
	if (result == LINK_DONE)
		nominate(links);
	return result;
}

static enum link_result sweep_orphans(struct sweeping *sweeping)
{
	struct links links = {.sweeping = sweeping};
	struct place from = {0};
	enum link_result result;
	bool after = false, last = false;

	links.all = must_calloc(LINKS_PAGE, sizeof(*links.all));
	do {
		result = sweep_page(&links, &from, &after, &last);
		links_reset(&links);
		rest(sweeping);
	} while (result == LINK_DONE && !last);
	free((void *)from.value.data);
	free(links.all);
	return result;
}

must_check enum link_result sweep_target(struct mover *mover, struct link *link,
					 struct mover_target *target)
{
	struct sweeping sweeping = {mover, link, target, PAGE_FIRST, mover_clock(), 0};
	enum link_result result = sweep_main(&sweeping);

	if (result == LINK_DONE)
		result = sweep_orphans(&sweeping);
	if (result == LINK_REFUSED)
		log_warning("mover: '%s.%s': the sweep was refused: %s", target->database,
			    target->collection, link_error(link)->message);
	if (result == LINK_DONE)
		metric_add_shared(&mover->metrics->sweeps, 1);
	return result;
}

/* Namespaces of patterns. */

struct naming {
	struct mover *mover;
	const struct rule *rule;
	char **databases;
	size_t count;
	struct bytes database;
};

static void take_database(void *context, struct bytes document)
{
	struct naming *naming = context;
	struct element element;
	struct bytes name;

	if (!document_find(document, "name", &element) || !element_string(&element, &name) ||
	    !glob_match(bytes_of(naming->rule->database), name))
		return;
	naming->databases =
		must_realloc(naming->databases, (naming->count + 1) * sizeof(*naming->databases));
	naming->databases[naming->count++] = must_strndup((const char *)name.data, name.length);
}

static void take_collection(void *context, struct bytes document)
{
	struct naming *naming = context;
	struct element element;
	struct bytes name;

	if (!document_find(document, "name", &element) || !element_string(&element, &name) ||
	    !glob_match(bytes_of(naming->rule->collection), name) ||
	    (name.length > 7 && memcmp(name.data, "system.", 7) == 0) ||
	    rule_set_overflow(naming->mover->config->rules, naming->database, name))
		return;
	(void)target_get(naming->mover->targets, naming->rule, naming->database, name);
}

static enum link_result find_databases(struct naming *naming, struct link *link)
{
	const char *database = naming->rule->database;
	bson_t *command;
	enum link_result result;
	struct element list, each;
	struct bytes databases, document;
	struct cursor cursor;

	if (!glob_is(bytes_of(database))) {
		naming->databases = must_malloc(sizeof(*naming->databases));
		naming->databases[naming->count++] = must_strndup(database, strlen(database));
		return LINK_DONE;
	}
	command = BCON_NEW("listDatabases", BCON_INT32(1), "nameOnly", BCON_BOOL(true));
	result = link_run(link, "admin", (struct bytes){bson_get_data(command), command->len});
	bson_destroy(command);
	if (result != LINK_DONE || !document_find(link_body(link), "databases", &list) ||
	    !element_document(&list, &databases) || !cursor_open(&cursor, databases))
		return result;
	while (cursor_next(&cursor, &each) == CURSOR_ELEMENT) {
		if (element_document(&each, &document))
			take_database(naming, document);
	}
	return LINK_DONE;
}

static enum link_result find_collections(struct naming *naming, struct link *link)
{
	enum link_result result = LINK_DONE;
	bson_t *command;

	for (size_t i = 0; result == LINK_DONE && i < naming->count; i++) {
		naming->database = bytes_of(naming->databases[i]);
		command = BCON_NEW("listCollections", BCON_INT32(1), "nameOnly", BCON_BOOL(true),
				   "authorizedCollections", BCON_BOOL(true));
		result = link_find(link, naming->databases[i],
				   (struct bytes){bson_get_data(command), command->len},
				   take_collection, naming);
		bson_destroy(command);
	}
	return result;
}

static enum link_result find_namespaces_of(struct mover *mover, struct link *link,
					   const struct rule *rule)
{
	struct naming naming = {.mover = mover, .rule = rule};
	enum link_result result = find_databases(&naming, link);

	if (result == LINK_DONE)
		result = find_collections(&naming, link);
	if (result == LINK_REFUSED && !atomic_exchange(&mover->listing_logged, true))
		log_warning(
			"mover: the namespaces of rule '%s' can't be listed, so that only those "
			"in use are swept: %s",
			rule->name, link_error(link)->message);
	for (size_t i = 0; i < naming.count; i++)
		free(naming.databases[i]);
	free(naming.databases);
	return result == LINK_REFUSED ? LINK_DONE : result;
}

must_check enum link_result sweep_find_namespaces(struct mover *mover, struct link *link)
{
	struct rule_set *rules = mover->config->rules;
	enum link_result result = LINK_DONE;

	for (size_t i = 0; result == LINK_DONE && i < rule_set_count(rules); i++) {
		const struct rule *rule = rule_set_at(rules, i);

		if (glob_is(bytes_of(rule->database)) || glob_is(bytes_of(rule->collection)))
			result = find_namespaces_of(mover, link, rule);
	}
	return result;
}
