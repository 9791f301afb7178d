/* Tests rules/read/plain_find.c: which finds need no sequence yet, and which replies none at all.
 * (That what is plain is what match_packet and the sequence say of it, test_match.c and play.h look
 * after.)
 */
#include "tests/unit/shop.h"

#include "rules/read/plain_find.h"

static struct shop shop;

static bool is_plain(const struct made *made)
{
	auto_buffer struct buffer frame = made_frame(made);
	const struct ruled_namespace *namespace = NULL;
	bool plain = plain_find(shop.cache, buffer_view(&frame), &namespace);

	cr_expect_eq(namespace != NULL, plain);
	return plain;
}

static bool passes(const struct made *made)
{
	auto_buffer struct buffer frame = made_frame(made);
	bool full;

	return plain_find_passes(
		namespace_cache_find(shop.cache, bytes_of("shop"), bytes_of("books"), &full),
		buffer_view(&frame));
}

Test(plain_find, what_says_nothing_of_an_array_is_plain)
{
	static const char *const plain[] = {
		"{'find': 'books', '$db': 'shop'}",
		"{'find': 'books', 'filter': {}, '$db': 'shop'}",
		"{'find': 'books', 'filter': {'_id': 1}, 'limit': 1, 'singleBatch': true, 'lsid': "
		"{}, "
		"'$db': 'shop'}",
		"{'find': 'books', 'filter': {'_id': {'$in': [1, 2]}, 'title': 'f'}, '$db': "
		"'shop'}",
		"{'find': 'books', 'filter': {'$or': [{'a': 1}, {'b.f': 1}]}, '$db': 'shop'}",
		"{'find': 'posts', 'filter': {'_id': 1}, '$db': 'tenant_1'}",
		"{'find': 'books', 'sort': {'a': 1, '_id': -1, 'b.f': 1, '$natural': 1}, '$db': "
		"'shop'}",
		"{'find': 'books', 'skip': 1, 'maxTimeMS': 5, 'batchSize': 2, 'comment': 'f', "
		"'collation': {'locale': 'de'}, 'readConcern': {}, 'apiVersion': '1', '$db': "
		"'shop', "
		"'$readPreference': {'mode': 'nearest'}, '$clusterTime': {}}",
	};

	shop = shop_open();
	for (size_t i = 0; i < ARRAY_LENGTH(plain); i++)
		cr_expect(is_plain(&(struct made){.body = plain[i]}), "%s", plain[i]);
	shop_close(&shop);
}

Test(plain_find, what_needs_another_look_is_not)
{
	static const char *const others[] = {
		"{'find': 'others', '$db': 'shop'}",
		"{'find': 'books_more', '$db': 'shop'}",
		"{'find': 'books'}",
		"{'find': 'books', '$db': 5}",
		"{'find': 5, '$db': 'shop'}",
		"{'count': 'books', '$db': 'shop'}",
		"{'getMore': 'books', 'collection': 'books', '$db': 'shop'}",
		"{'find': 'books', 'find': 'books', '$db': 'shop'}",
		"{'find': 'books', '$db': 'other', '$db': 'shop'}",
		"{'find': 'books', 'filter': {'_id': 1}, 'filter': {'f': 1}, '$db': 'shop'}",
		"{'find': 'books', 'filter': 1, '$db': 'shop'}",
		"{'find': 'books', 'filter': {'f': 1}, '$db': 'shop'}",
		"{'find': 'books', 'filter': {'_id': 1, 'f.0': 1}, '$db': 'shop'}",
		"{'find': 'books', 'filter': {'_spill': 1}, '$db': 'shop'}",
		"{'find': 'books', 'filter': {'_spill.f': 1}, '$db': 'shop'}",
		"{'find': 'books', 'filter': {'_spill/id': 1}, '$db': 'shop'}",
		("{'find': 'books', 'filter': {'$expr': {'$gt': [{'$size': '$f'}, 1]}}, '$db': "
		 "'shop'}"),
		"{'find': 'books', 'projection': {'a': 1}, '$db': 'shop'}",
		"{'find': 'books', 'sort': {'a': 1, 'f': 1}, '$db': 'shop'}",
		"{'find': 'books', 'sort': {'_spill.f.n': 1}, '$db': 'shop'}",
		"{'find': 'books', 'sort': 1, '$db': 'shop'}",
		"{'find': 'books', 'hint': 'a_1', '$db': 'shop'}",
		"{'find': 'books', 'let': {'a': 1}, '$db': 'shop'}",
		"{'find': 'books', 'min': {'a': 1}, '$db': 'shop'}",
		"{'find': 'books', 'txnNumber': 1, 'autocommit': false, '$db': 'shop'}",
		"{'find': 'books', 'tailable': true, '$db': 'shop'}",
	};
	const char *plain = "{'find': 'books', '$db': 'shop'}";

	shop = shop_open();
	for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
		cr_expect_not(is_plain(&(struct made){.body = others[i]}), "%s", others[i]);
	cr_expect_not(is_plain(&(struct made){.body = plain, .checksum = true}));
	cr_expect_not(is_plain(&(struct made){.body = plain, .flags = MESSAGE_MORE_TO_COME}));
	cr_expect_not(is_plain(&(struct made){.body = plain, .flags = MESSAGE_EXHAUST_ALLOWED}));
	cr_expect_not(is_plain(
		&(struct made){.body = plain, .sequence = "x", .documents = "[{'a': 1}]"}));
	cr_expect_not(is_plain(
		&(struct made){.body = plain, .packed = true, .compressor = COMPRESSOR_SNAPPY}));
	shop_close(&shop);
}

Test(plain_find, a_view_that_would_come_short_is_not)
{
	struct short_view view = {.database = (char *)"shop", .collection = (char *)"books"};
	static const char *const find = "{'find': 'books', '$db': 'shop'}";

	shop = shop_open();
	cr_expect(is_plain(&(struct made){.body = find}));
	view.rule = rule_set_at(shop.config->rules, 0);
	rule_set_take_views(shop.config->rules, &view, 1);
	cr_expect_not(is_plain(&(struct made){.body = find}));
	shop_close(&shop);
}

Test(plain_find, bytes_that_are_wrong_anywhere_are_not)
{
	struct buffer frame;
	const struct ruled_namespace *namespace;

	shop = shop_open();
	frame = made_frame(&(struct made){.body = "{'find': 'books', '$db': 'shop', 'x': null}"});
	cr_expect(plain_find(shop.cache, buffer_view(&frame), &namespace));
	for (size_t length = 0; length < frame.length; length++)
		cr_expect_not(
			plain_find(shop.cache, (struct bytes){frame.data, length}, &namespace));
	frame.data[frame.length - 4] = 0x55; /* a type that there isn't */
	cr_expect_not(plain_find(shop.cache, buffer_view(&frame), &namespace));
	buffer_fini(&frame);
	shop_close(&shop);
}

#define BATCH(documents) "{'cursor': {'firstBatch': [" documents "], 'id': 5}, 'ok': 1.0}"

Test(plain_find, a_reply_passes_where_no_name_in_it_is_ours)
{
	static const char *const passing[] = {
		BATCH(""),
		BATCH("{'_id': 1, 'f': [1, 2, 3]}"),
		BATCH("{}, {'a': {'_spill': 1, 'has_extras': true}}, {'_': 1, '': 2, 'has': 3}"),
	};
	static const char *const others[] = {
		BATCH("{'_id': 1}, {'_id': 2, 'f': [1], '_spill': {'f': {}}}"),
		BATCH("{'_spill/id': 1}"),
		BATCH("{'has_extras': true}"),
		BATCH("{'_id': 1}, 5"),
		"{'cursor': {'nextBatch': [], 'id': 5}, 'ok': 1.0}",
		"{'cursor': {'firstBatch': {}}, 'ok': 1.0}",
		"{'cursor': {}, 'ok': 1.0}",
		"{'cursor': 5, 'ok': 1.0}",
		"{'ok': 0.0, 'errmsg': 'no', 'code': 96}",
		"{}",
	};

	shop = shop_open();
	for (size_t i = 0; i < ARRAY_LENGTH(passing); i++)
		cr_expect(passes(&(struct made){.body = passing[i]}), "%s", passing[i]);
	for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
		cr_expect_not(passes(&(struct made){.body = others[i]}), "%s", others[i]);
	cr_expect_not(passes(&(struct made){.body = passing[1], .checksum = true}));
	cr_expect_not(passes(&(struct made){.body = passing[1], .flags = MESSAGE_MORE_TO_COME}));
	shop_close(&shop);
}
