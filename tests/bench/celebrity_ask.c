/* The operations of the load on libmongoc, in two forms: plain, and the outlier pattern by hand. */
#include "tests/bench/celebrity_ask.h"

#include <err.h>

#define NOBODY (INT64_C(1) << 32) /* no follower has this number or a greater one */

enum {
	PAGE = 20, /* followers that the last page shows */
	DUPLICATE = 11000,
	ATTEMPTS = 5, /* at a batch that several connections insert at the same time */
};

/* What a find brought of the last page. */
struct page {
	int64_t ids[PAGE];
	int count;
	bool outlier; /* the application's flag */
};

bson_t *ask_new_element(int32_t user, int32_t position)
{
	return BCON_NEW("id", BCON_INT64(draw_follower(user, position)), "since",
			BCON_DATE_TIME(FIRST_DAY + position * INT64_C(1000)));
}

typedef void take_function(const bson_t *document, void *context);

/* Gives each document found to `take`; returns how many there were. Frees `filter` and `opts`. */
static int find(mongoc_collection_t *collection, bson_t *filter, bson_t *opts, take_function *take,
		void *context)
{
	mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(collection, filter, opts, NULL);
	const bson_t *document;
	bson_error_t error;
	int count = 0;

	while (mongoc_cursor_next(cursor, &document)) {
		count++;
		take(document, context);
	}
	if (mongoc_cursor_error(cursor, &error))
		errx(1, "find: %s", error.message);
	mongoc_cursor_destroy(cursor);
	bson_destroy(filter);
	bson_destroy(opts);
	return count;
}

static int64_t reply_number(const bson_t *reply, const char *name)
{
	bson_iter_t iter;

	return bson_iter_init_find(&iter, reply, name) ? bson_iter_as_int64(&iter) : 0;
}

/* Returns the number of documents updated or inserted, -1 for a duplicate key. Frees its bson. */
static int64_t update(mongoc_collection_t *collection, bson_t *query, bson_t *change, bson_t *opts)
{
	bson_error_t error = {0};
	bson_iter_t iter;
	int64_t count;
	bson_t reply;
	bool done = mongoc_collection_update_one(collection, query, change, opts, &reply, &error);

	if (!done && error.code != DUPLICATE)
		errx(1, "update: %s", error.message);
	count = reply_number(&reply, "modifiedCount") +
		bson_iter_init_find(&iter, &reply, "upsertedId");
	bson_destroy(&reply);
	bson_destroy(query);
	bson_destroy(change);
	bson_destroy(opts);
	return done ? count : -1;
}

static bson_t *new_push(const struct operation *o)
{
	bson_t *element = ask_new_element(o->user, o->position);
	bson_t *change = BCON_NEW("$push", "{", "followers", BCON_DOCUMENT(element), "}", "$inc",
				  "{", "followerCount", BCON_INT32(1), "}");

	bson_destroy(element);
	return change;
}

static bool push(struct asker *a, const struct operation *o)
{
	return update(a->users, BCON_NEW("_id", BCON_INT32(o->user)), new_push(o), NULL) == 1;
}

static void take_flag(const bson_t *document, void *flag)
{
	bson_iter_t iter;

	*(bool *)flag =
		bson_iter_init_find(&iter, document, "hasOverflow") && bson_iter_as_bool(&iter);
}

static bool has_flag(struct asker *a, int32_t user)
{
	bool flag = false;

	if (find(a->users, BCON_NEW("_id", BCON_INT32(user)),
		 BCON_NEW("projection", "{", "hasOverflow", BCON_INT32(1), "}", "limit",
			  BCON_INT64(1), "singleBatch", BCON_BOOL(true)),
		 take_flag, &flag) != 1)
		errx(1, "user %d is missing", user);
	return flag;
}

static bool push_main_by_hand(struct asker *a, const struct operation *o)
{
	return update(a->users,
		      BCON_NEW("_id", BCON_INT32(o->user), "followerCount", "{", "$lt",
			       BCON_INT32(a->threshold), "}"),
		      new_push(o), NULL) == 1;
}

/* Counts one follower more and sets the flag; returns the new count, which tells the batch. */
static int64_t count_by_hand(struct asker *a, int32_t user)
{
	mongoc_find_and_modify_opts_t *opts = mongoc_find_and_modify_opts_new();
	bson_t *query = BCON_NEW("_id", BCON_INT32(user));
	bson_t *fields = BCON_NEW("followerCount", BCON_INT32(1));
	bson_t *change = BCON_NEW("$inc", "{", "followerCount", BCON_INT32(1), "}", "$set", "{",
				  "hasOverflow", BCON_BOOL(true), "}");
	bson_iter_t iter, count;
	bson_error_t error;
	bson_t reply;
	int64_t result;

	mongoc_find_and_modify_opts_set_update(opts, change);
	mongoc_find_and_modify_opts_set_fields(opts, fields);
	mongoc_find_and_modify_opts_set_flags(opts, MONGOC_FIND_AND_MODIFY_RETURN_NEW);
	if (!mongoc_collection_find_and_modify_with_opts(a->users, query, opts, &reply, &error))
		errx(1, "findAndModify: %s", error.message);
	if (!bson_iter_init(&iter, &reply) ||
	    !bson_iter_find_descendant(&iter, "value.followerCount", &count))
		errx(1, "findAndModify: user %d is missing", user);
	result = bson_iter_as_int64(&count);
	bson_destroy(&reply);
	bson_destroy(query);
	bson_destroy(fields);
	bson_destroy(change);
	mongoc_find_and_modify_opts_destroy(opts);
	return result;
}

int32_t ask_batch_number(const struct asker *a, int64_t count)
{
	return (int32_t)((count - 1 - a->threshold) / a->threshold + 1);
}

static bool push_batch_by_hand(struct asker *a, const struct operation *o, int64_t count)
{
	int64_t updated = -1;

	for (int i = 0; i < ATTEMPTS && updated < 0; i++) {
		bson_t *element = ask_new_element(o->user, o->position);
		bson_t *change =
			BCON_NEW("$push", "{", "followers", BCON_DOCUMENT(element), "}",
				 "$setOnInsert", "{", "createdAt", BCON_DATE_TIME(FIRST_DAY), "}");

		bson_destroy(element);
		updated = update(a->overflow,
				 BCON_NEW("userId", BCON_INT32(o->user), "batchNumber",
					  BCON_INT32(ask_batch_number(a, count))),
				 change, BCON_NEW("upsert", BCON_BOOL(true)));
	}
	return updated == 1;
}

/* Looks at the flag first. Another connection may have filled the document since. */
static bool push_by_hand(struct asker *a, const struct operation *o)
{
	if (!has_flag(a, o->user) && push_main_by_hand(a, o))
		return true;
	return push_batch_by_hand(a, o, count_by_hand(a, o->user));
}

static void take_profile(const bson_t *document, void *good)
{
	*(bool *)good =
		bson_has_field(document, "username") && !bson_has_field(document, "followers");
}

static bool profile(struct asker *a, const struct operation *o)
{
	bool good = false;

	return find(a->users, BCON_NEW("_id", BCON_INT32(o->user)),
		    BCON_NEW("projection", "{", "followers", BCON_INT32(0), "}", "limit",
			     BCON_INT64(1), "singleBatch", BCON_BOOL(true)),
		    take_profile, &good) == 1 &&
	       good;
}

/* Puts the end of the document's followers before those that the page has. */
static void take_page(const bson_t *document, void *context)
{
	struct page *page = context;
	bson_iter_t followers, element, id;
	int64_t ids[PAGE];
	int count = 0, room;

	take_flag(document, &page->outlier);
	if (!bson_iter_init_find(&followers, document, "followers") ||
	    !bson_iter_recurse(&followers, &element))
		return;
	while (count < PAGE && bson_iter_next(&element)) {
		if (bson_iter_recurse(&element, &id) && bson_iter_find(&id, "id"))
			ids[count++] = bson_iter_as_int64(&id);
	}
	room = PAGE - page->count < count ? PAGE - page->count : count;
	memmove(page->ids + room, page->ids, (size_t)page->count * sizeof(ids[0]));
	memcpy(page->ids, ids + count - room, (size_t)room * sizeof(ids[0]));
	page->count += room;
}

/* With one connection exactly the last ones; with several, others may be added meanwhile. */
static bool page_is_good(const struct asker *a, const struct page *page, const struct operation *o)
{
	int first = o->followers > PAGE ? o->followers - PAGE : 0;

	if (!a->alone)
		return page->count >= (o->known < PAGE ? o->known : PAGE);
	for (int i = 0; i < page->count; i++) {
		if (page->ids[i] != draw_follower(o->user, first + i))
			return false;
	}
	return page->count == o->followers - first;
}

static void find_page(struct asker *a, const struct operation *o, struct page *page)
{
	if (find(a->users, BCON_NEW("_id", BCON_INT32(o->user)),
		 BCON_NEW("projection", "{", "followers", "{", "$slice", BCON_INT32(-PAGE), "}",
			  "}", "limit", BCON_INT64(1), "singleBatch", BCON_BOOL(true)),
		 take_page, page) != 1)
		errx(1, "user %d is missing", o->user);
}

static bool last(struct asker *a, const struct operation *o)
{
	struct page page = {0};

	find_page(a, o, &page);
	return page_is_good(a, &page, o);
}

static bool last_by_hand(struct asker *a, const struct operation *o)
{
	struct page main = {0}, page = {0};
	int32_t batches = 1 + (PAGE + a->threshold - 1) / a->threshold;

	find_page(a, o, &main);
	if (!main.outlier)
		return page_is_good(a, &main, o);
	find(a->overflow, BCON_NEW("userId", BCON_INT32(o->user)),
	     BCON_NEW("projection", "{", "followers", "{", "$slice", BCON_INT32(-PAGE), "}", "}",
		      "sort", "{", "batchNumber", BCON_INT32(-1), "}", "limit", BCON_INT64(batches),
		      "singleBatch", BCON_BOOL(true)),
	     take_page, &page);
	while (page.count < PAGE && main.count > 0) {
		memmove(page.ids + 1, page.ids, (size_t)page.count++ * sizeof(page.ids[0]));
		page.ids[0] = main.ids[--main.count];
	}
	return page_is_good(a, &page, o);
}

static int64_t looked_for(const struct operation *o)
{
	return o->position < 0 ? NOBODY + o->followers : draw_follower(o->user, o->position);
}

static void take_nothing(const bson_t *document, void *context)
{
	(void)document;
	(void)context;
}

static int find_member(mongoc_collection_t *collection, const char *key, const struct operation *o)
{
	return find(collection,
		    BCON_NEW(key, BCON_INT32(o->user), "followers.id", BCON_INT64(looked_for(o))),
		    BCON_NEW("projection", "{", "_id", BCON_INT32(1), "}", "limit", BCON_INT64(1),
			     "singleBatch", BCON_BOOL(true)),
		    take_nothing, NULL);
}

static bool member(struct asker *a, const struct operation *o)
{
	return find_member(a->users, "_id", o) == (o->position >= 0);
}

/* Reads the flag and the follower in one find; asks the batches only if they can have it. */
static bool member_by_hand(struct asker *a, const struct operation *o)
{
	struct page page = {0};
	int found;

	if (find(a->users, BCON_NEW("_id", BCON_INT32(o->user)),
		 BCON_NEW("projection", "{", "hasOverflow", BCON_INT32(1), "followers", "{",
			  "$elemMatch", "{", "id", BCON_INT64(looked_for(o)), "}", "}", "}",
			  "limit", BCON_INT64(1), "singleBatch", BCON_BOOL(true)),
		 take_page, &page) != 1)
		errx(1, "user %d is missing", o->user);
	found = page.count;
	if (found == 0 && page.outlier)
		found = find_member(a->overflow, "userId", o);
	return found == (o->position >= 0);
}

typedef bool operate_function(struct asker *a, const struct operation *o);

bool ask(struct asker *a, const struct operation *o)
{
	static operate_function *const plain[KINDS] = {push, profile, last, member};
	static operate_function *const by_hand[KINDS] = {push_by_hand, profile, last_by_hand,
							 member_by_hand};

	return (a->overflow != NULL ? by_hand : plain)[o->kind](a, o);
}
