/*
 * The rules that the tests of matching and of sequences are about.
 */
#ifndef TESTS_UNIT_SHOP_H
#define TESTS_UNIT_SHOP_H

#include "tests/unit/wire_make.h"

#include "rules/config/config.h"

/* shop.books, shop.bare and shop.marked have one rule (bare no fields beside the array, marked a
 * flag with an `otherwise`), shop.pairs two (one overflow in another database), shop.shown two that
 * show their flags, tenant_*.posts a pattern. Change streams may see marked, and shown by one of
 * its rules. */
#define SHOP_RULES \
	"listen: [{ address: '127.0.0.1:1', server: '127.0.0.1:2' }]\n" \
	"rules:\n" \
	"  - name: books\n" \
	"    namespace: shop.books\n" \
	"    array: f\n" \
	"    threshold: 2\n" \
	"    flag: { field: has_extras, value: true }\n" \
	"    change_streams: refuse\n" \
	"    overflow: { collection: books_more, link: book, array: more }\n" \
	"  - name: first\n" \
	"    namespace: shop.pairs\n" \
	"    array: f\n" \
	"    threshold: 2\n" \
	"    change_streams: refuse\n" \
	"    overflow: { collection: pairs_more, link: pair, array: more }\n" \
	"  - name: second\n" \
	"    namespace: shop.pairs\n" \
	"    array: a.g\n" \
	"    threshold: 2\n" \
	"    change_streams: refuse\n" \
	"    overflow: { collection: side.rest, link: of, array: rest, batch: { field: number } " \
	"}\n" \
	"  - name: bare\n" \
	"    namespace: shop.bare\n" \
	"    array: f\n" \
	"    threshold: 2\n" \
	"    change_streams: refuse\n" \
	"    overflow: { collection: bare_more, link: book, array: more }\n" \
	"  - name: marked\n" \
	"    namespace: shop.marked\n" \
	"    array: f\n" \
	"    threshold: 2\n" \
	"    flag: { field: has_extras, value: 'yes', otherwise: 'no' }\n" \
	"    change_streams: as_stored\n" \
	"    overflow: { collection: marked_more, link: book, array: more }\n" \
	"  - name: long\n" \
	"    namespace: shop.shown\n" \
	"    array: f\n" \
	"    threshold: 2\n" \
	"    flag: { field: long, value: true }\n" \
	"    change_streams: as_stored\n" \
	"    expose: [flag]\n" \
	"    overflow: { collection: shown_more, link: of, array: more }\n" \
	"  - name: wide\n" \
	"    namespace: shop.shown\n" \
	"    array: g\n" \
	"    threshold: 2\n" \
	"    flag: { field: wide, value: true }\n" \
	"    expose: [flag]\n" \
	"    change_streams: refuse\n" \
	"    overflow: { collection: shown_wide, link: of, array: more }\n" \
	"  - name: posts\n" \
	"    namespace: tenant_*.posts\n" \
	"    array: likes\n" \
	"    threshold: 2\n" \
	"    change_streams: refuse\n" \
	"    overflow: { link: post, array: likes, indexes: [{ keys: { likes: 1 } }] }\n"

struct shop {
	struct config *config;
	struct namespace_cache *cache;
};

static inline struct shop shop_open(void)
{
	auto_free char *problems = NULL;
	struct shop shop;

	shop.config = config_parse("f", bytes_of(SHOP_RULES), NULL, &problems);
	cr_assert(shop.config, "%s", problems);
	shop.cache = namespace_cache_new(shop.config->rules);
	return shop;
}

static inline void shop_close(struct shop *shop)
{
	namespace_cache_free(shop->cache);
	config_free(shop->config);
	made_free();
}

#endif
