/* Which namespaces a rule's pattern matches on the server. */
#include "proxy/upstream/namespaces.h"

#include "proxy/upstream/clauses.h"
#include "rules/rule/glob.h"

#include <stdlib.h>

struct naming {
	const struct namespaces *of;
	const struct rule *rule;
	char **databases;
	size_t count;
	struct bytes database;
};

static void take_database(void *context, struct bytes document)
{
	struct naming *naming = context;
	struct bytes name;

	if (!document_find_string(document, "name", &name) ||
	    !rule_pattern_matches_database(naming->rule->database, name))
		return;
	naming->databases =
		must_realloc(naming->databases, (naming->count + 1) * sizeof(*naming->databases));
	naming->databases[naming->count++] = must_strndup((const char *)name.data, name.length);
}

static void take_collection(void *context, struct bytes document)
{
	struct naming *naming = context;
	struct bytes name, type;

	if (!naming->of->views && document_find_string(document, "type", &type) &&
	    !bytes_are(type, "collection"))
		return;
	if (!document_find_string(document, "name", &name) ||
	    !rule_matches(naming->rule, naming->database, name) ||
	    rule_set_overflow(naming->of->rules, naming->database, name))
		return;
	(void)target_get(naming->of->targets, naming->rule, naming->database, name);
}

/* Who may not list all of them is told those that he has rights on, and not that there are
 * others. */
static enum link_result list_databases(const struct naming *naming, struct link *link)
{
	if (naming->of->all) {
		enum link_result result = command_run(
			link, "admin",
			"{listDatabases: 1, nameOnly: true, authorizedDatabases: false}");

		if (result != LINK_REFUSED)
			return result;
		naming->of->refused(naming->of->context, naming->rule->database);
	}
	return command_run(link, "admin", "{listDatabases: 1, nameOnly: true}");
}

static enum link_result find_databases(struct naming *naming, struct link *link)
{
	const char *database = naming->rule->database;
	enum link_result result;
	struct element each;
	struct bytes databases, document;
	struct cursor cursor;

	if (!glob_is(bytes_of(database))) {
		naming->databases = must_malloc(sizeof(*naming->databases));
		naming->databases[naming->count++] = must_strndup(database, strlen(database));
		return LINK_DONE;
	}
	result = list_databases(naming, link);
	if (result != LINK_DONE ||
	    !document_find_document(link_body(link), "databases", &databases) ||
	    !cursor_open(&cursor, databases))
		return result;
	while (cursor_next(&cursor, &each) == CURSOR_ELEMENT) {
		if (element_document(&each, &document))
			take_database(naming, document);
	}
	return LINK_DONE;
}

/* The same of the collections of one. */
static enum link_result list_collections(struct naming *naming, struct link *link,
					 const char *database)
{
	enum link_result result;

	if (naming->of->all) {
		result = command_find(link, database, take_collection, naming,
				      "{listCollections: 1, nameOnly: true}");
		if (result != LINK_REFUSED)
			return result;
		naming->of->refused(naming->of->context, database);
	}
	result = command_find(link, database, take_collection, naming,
			      "{listCollections: 1, nameOnly: true, authorizedCollections: true}");
	if (result == LINK_REFUSED && !naming->of->all)
		naming->of->refused(naming->of->context, database);
	return result;
}

static enum link_result find_collections(struct naming *naming, struct link *link)
{
	enum link_result result = LINK_DONE;

	for (size_t i = 0; result != LINK_LOST && i < naming->count; i++) {
		naming->database = bytes_of(naming->databases[i]);
		result = list_collections(naming, link, naming->databases[i]);
	}
	return result == LINK_LOST ? LINK_LOST : LINK_DONE;
}

must_check enum link_result namespaces_find(struct link *link, const struct namespaces *namespaces,
					    const struct rule *rule)
{
	struct naming naming = {.of = namespaces, .rule = rule};
	enum link_result result = find_databases(&naming, link);

	if (result == LINK_REFUSED)
		namespaces->refused(namespaces->context, rule->database);
	if (result != LINK_LOST)
		result = find_collections(&naming, link);
	for (size_t i = 0; i < naming.count; i++)
		free(naming.databases[i]);
	free(naming.databases);
	return result;
}
